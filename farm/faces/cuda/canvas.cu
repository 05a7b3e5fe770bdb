// From frames to canvases and back, and faces unrolled. See canvas.py. Compiled with SAMPLE and SHIFT set.

// R'G'B' of a whole pixel, unclipped.
__device__ inline void pixel_rgb(const SAMPLE* frame, int width, int height, const float* code, int x, int y, float* rgb) {
    float cb, cr, luma = sample_at(frame, y * width + x);
    chroma_at(frame, width, height, code, (float)x, (float)y, &cb, &cr);
    for (int c = 0; c < 3; ++c) rgb[c] = row_of(code + 4 * c, luma, cb, cr);
}

extern "C" __global__ void canvas_rgb(
    const SAMPLE* frames, int width, int height, const float* code, const int* frame_of, const int* box, const int* start,
    float* rgb) {
    Spot spot = spot_of(box, start, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y);
    if (!spot.there) return;
    const SAMPLE* frame = frames + (long long)frame_of[spot.face] * (width * (height + height / 2));
    pixel_rgb(frame, width, height, code, box[spot.face * 4] + spot.x, box[spot.face * 4 + 1] + spot.y, rgb + spot.at * 3);
}

// A face's canvas as it is laid: `box` its own.
struct OnCanvas {
    const int* box;
    const float *rgb, *mask;
    long long first;

    __device__ float operator()(int x, int y, float* out) const {
        if (x < box[0] || y < box[1] || x >= box[2] || y >= box[3]) return 0.0f;
        long long at = first + (long long)(y - box[1]) * (box[2] - box[0]) + (x - box[0]);
        for (int c = 0; c < 3; ++c) out[c] = rgb[at * 3 + c];
        return mask[at];
    }
};

extern "C" __global__ void canvas_lay(
    SAMPLE* frames, int width, int height, const float* code, const int* frame_of, const int* box, const int* start,
    const float* rgb, const float* mask, const int* flags, int across) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, face = blockIdx.y;
    const int* own = box + face * 4;
    int left = own[0], above = own[1], right = own[2], below = own[3];
    int cx = left / 2 - 1 + index % across, cy = above / 2 - 1 + index / across;
    if (flags[face * 2] || cx < 0 || cy < 0 || cx > (right + 1) / 2 || cy > (below + 1) / 2) return;
    if (cx >= width / 2 || cy >= height / 2) return;
    SAMPLE* frame = frames + (long long)frame_of[face] * (width * (height + height / 2));
    blend_cell(frame, width, height, code, cx, cy, OnCanvas{own, rgb, mask, start[face]});
}

// Faces unrolled: `points` (n, vertices, 2) in the frame, `corners` and `weights` (side * side, 3), corner -1 for no face.
extern "C" __global__ void unroll(
    const SAMPLE* frames, int width, int height, const float* code, const int* frame_of, const float* points, int vertices,
    const int* corners, const float* weights, int pixels, float* out) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, face = blockIdx.y;
    if (index >= pixels) return;
    float* made = out + ((long long)face * pixels + index) * 3;
    made[0] = made[1] = made[2] = 0.0f;
    const int* corner = corners + index * 3;
    if (corner[0] < 0) return;
    const SAMPLE* frame = frames + (long long)frame_of[face] * (width * (height + height / 2));
    const float *p = points + (long long)face * vertices * 2, *w = weights + index * 3;
    float x = p[corner[0] * 2] * w[0] + p[corner[1] * 2] * w[1] + p[corner[2] * 2] * w[2];
    float y = p[corner[0] * 2 + 1] * w[0] + p[corner[1] * 2 + 1] * w[1] + p[corner[2] * 2 + 1] * w[2];
    float fx = floorf(x), fy = floorf(y), px = x - fx, py = y - fy;
    int x0 = held((int)fx, width), x1 = held((int)fx + 1, width), y0 = held((int)fy, height), y1 = held((int)fy + 1, height);
    float a[3], b[3], c[3], d[3];
    pixel_rgb(frame, width, height, code, x0, y0, a);
    pixel_rgb(frame, width, height, code, x1, y0, b);
    pixel_rgb(frame, width, height, code, x0, y1, c);
    pixel_rgb(frame, width, height, code, x1, y1, d);
    for (int k = 0; k < 3; ++k) {
        float above = a[k] * (1.0f - px) + b[k] * px, below = c[k] * (1.0f - px) + d[k] * px;
        made[k] = above * (1.0f - py) + below * py;
    }
}
