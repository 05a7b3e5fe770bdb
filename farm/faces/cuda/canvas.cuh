// Canvases: the boxes of many faces, pixel after pixel, one face behind the other. See canvas.py.
// `box` (n, 4): left, top, right, bottom in the frame. `start` (n): a face's first pixel. A launch has one row of blocks a
// face (blockIdx.y); a thread is a pixel of it.

#define LUMA(r, g, b) (0.2126f * (r) + 0.7152f * (g) + 0.0722f * (b))

struct Spot {
    int face, x, y, width, height;
    long long first, at;
    bool there;
};

__device__ inline Spot spot_of(const int* box, const int* start, int index, int face) {
    Spot spot;
    const int* own = box + face * 4;
    spot.face = face;
    spot.width = own[2] - own[0];
    spot.height = own[3] - own[1];
    spot.first = start[face];
    spot.at = spot.first + index;
    spot.there = index < spot.width * spot.height;
    spot.x = index % spot.width;
    spot.y = index / spot.width;
    return spot;
}

__device__ inline int held(int value, int count) { return value < 0 ? 0 : (value >= count ? count - 1 : value); }

__device__ inline float smooth(float value, float low, float high) {
    float t = (value - low) / (high - low);
    t = t < 0.0f ? 0.0f : (t > 1.0f ? 1.0f : t);
    return t * t * (3.0f - 2.0f * t);
}

// `count` channels from `first` on of a texture (side, side, channels), bilinear at (x, y), edges repeated.
__device__ inline void linear_at(
    const float* texture, int side, int channels, int first, int count, float x, float y, float* out) {
    float fx = floorf(x), fy = floorf(y);
    float px = x - fx, py = y - fy;
    int x0 = held((int)fx, side), x1 = held((int)fx + 1, side), y0 = held((int)fy, side), y1 = held((int)fy + 1, side);
    for (int c = 0; c < count; ++c) {
        const float* t = texture + first + c;
        float above = t[(y0 * side + x0) * channels] * (1.0f - px) + t[(y0 * side + x1) * channels] * px;
        float below = t[(y1 * side + x0) * channels] * (1.0f - px) + t[(y1 * side + x1) * channels] * px;
        out[c] = above * (1.0f - py) + below * py;
    }
}

// Keys' cubic weights with a = -0.75, as OpenCV has them, of the four pixels around a place `p` behind the second.
__device__ inline void cubic_weights(float p, float* w) {
    float q = p + 1.0f, r = 1.0f - p;
    w[0] = ((-0.75f * q + 3.75f) * q - 6.0f) * q + 3.0f;
    w[1] = (1.25f * p - 2.25f) * p * p + 1.0f;
    w[2] = (1.25f * r - 2.25f) * r * r + 1.0f;
    w[3] = 1.0f - w[0] - w[1] - w[2];
}

// RGB of a picture (height, width, 3) at (x, y), bicubic, edges repeated.
__device__ inline void cubic_at(const float* picture, int width, int height, float x, float y, float* out) {
    float fx = floorf(x), fy = floorf(y), across[4], down[4];
    cubic_weights(x - fx, across);
    cubic_weights(y - fy, down);
    int columns[4];
    for (int i = 0; i < 4; ++i) columns[i] = held((int)fx - 1 + i, width) * 3;
    out[0] = out[1] = out[2] = 0.0f;
    for (int j = 0; j < 4; ++j) {
        const float* row = picture + (long long)held((int)fy - 1 + j, height) * width * 3;
        for (int c = 0; c < 3; ++c) {
            float sum = row[columns[0] + c] * across[0] + row[columns[1] + c] * across[1] +
                        row[columns[2] + c] * across[2] + row[columns[3] + c] * across[3];
            out[c] += sum * down[j];
        }
    }
}
