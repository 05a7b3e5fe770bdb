// Semi-planar frames (NV12, P010), how to read them and how to blend into them. Compiled with SAMPLE (unsigned char or unsigned short) and SHIFT
// (P010 holds its ten bits on top: 6) set. A batch is SAMPLE[count][height * 3 / 2][width]: luma rows, then rows of
// interleaved Cb, Cr.
//
// `code` (floats): 0-11 samples to R'G'B' (3 x 4, rows R, G, B; columns Y, Cb, Cr, 1), 12-23 the way back, 24 and 25 the
// horizontal and vertical position of chroma sample 0 in luma pixels, 26 the greatest sample value, 27-30 and 31-34 the
// weights of luma offsets -1, 0, 1, 2 in a chroma sample's footprint, across and down.

#define PHASE_X 24
#define PHASE_Y 25
#define TOP 26
#define TAPS_X 27
#define TAPS_Y 31

__device__ inline int clamped(int value, int low, int high) { return value < low ? low : (value > high ? high : value); }

__device__ inline float unit(float value) { return value < 0.0f ? 0.0f : (value > 1.0f ? 1.0f : value); }

__device__ inline float sample_at(const SAMPLE* plane, int index) { return (float)(plane[index] >> SHIFT); }

// Bilinear luma at (x, y), edges repeated.
__device__ inline float luma_at(const SAMPLE* frame, int width, int height, float x, float y) {
    float fx = floorf(x), fy = floorf(y);
    float px = x - fx, py = y - fy;
    int x0 = clamped((int)fx, 0, width - 1), x1 = clamped((int)fx + 1, 0, width - 1);
    int y0 = clamped((int)fy, 0, height - 1), y1 = clamped((int)fy + 1, 0, height - 1);
    float above = sample_at(frame, y0 * width + x0) * (1.0f - px) + sample_at(frame, y0 * width + x1) * px;
    float below = sample_at(frame, y1 * width + x0) * (1.0f - px) + sample_at(frame, y1 * width + x1) * px;
    return above * (1.0f - py) + below * py;
}

// Bilinear Cb and Cr at luma position (x, y), edges repeated.
__device__ inline void chroma_at(
    const SAMPLE* frame, int width, int height, const float* code, float x, float y, float* cb, float* cr) {
    const SAMPLE* plane = frame + (long long)width * height;
    int columns = width / 2, rows = height / 2;
    float cx = (x - code[PHASE_X]) * 0.5f, cy = (y - code[PHASE_Y]) * 0.5f;
    float fx = floorf(cx), fy = floorf(cy);
    float px = cx - fx, py = cy - fy;
    int x0 = clamped((int)fx, 0, columns - 1) * 2, x1 = clamped((int)fx + 1, 0, columns - 1) * 2;
    int y0 = clamped((int)fy, 0, rows - 1) * width, y1 = clamped((int)fy + 1, 0, rows - 1) * width;
    float above = sample_at(plane, y0 + x0) * (1.0f - px) + sample_at(plane, y0 + x1) * px;
    float below = sample_at(plane, y1 + x0) * (1.0f - px) + sample_at(plane, y1 + x1) * px;
    *cb = above * (1.0f - py) + below * py;
    above = sample_at(plane, y0 + x0 + 1) * (1.0f - px) + sample_at(plane, y0 + x1 + 1) * px;
    below = sample_at(plane, y1 + x0 + 1) * (1.0f - px) + sample_at(plane, y1 + x1 + 1) * px;
    *cr = above * (1.0f - py) + below * py;
}

__device__ inline float row_of(const float* row, float a, float b, float c) {
    return row[0] * a + row[1] * b + row[2] * c + row[3];
}

// A value as a sample of a frame, rounded and within what it can hold.
__device__ inline SAMPLE stored(float value, float top) {
    value = rintf(value);
    return (SAMPLE)((int)(value < 0.0f ? 0.0f : (value > top ? top : value)) << SHIFT);
}

// Blend what `seen` shows into chroma sample (cx, cy) and its 2 x 2 luma pixels; one thread owns them.
// seen(x, y, rgb): R'G'B' at a luma pixel and how much of it counts, 0 for nothing; asked beyond the frame's edges too.
template <class Seen>
__device__ inline void blend_cell(SAMPLE* frame, int width, int height, const float* code, int cx, int cy, const Seen& seen) {
    float top = code[TOP], heard = 0.0f, sum_b = 0.0f, sum_r = 0.0f;
    for (int dy = -1; dy <= 2; ++dy) {
        for (int dx = -1; dx <= 2; ++dx) {
            float share = code[TAPS_X + 1 + dx] * code[TAPS_Y + 1 + dy];
            bool own = (dx == 0 || dx == 1) && (dy == 0 || dy == 1);
            if (share == 0.0f && !own) continue;
            int x = cx * 2 + dx, y = cy * 2 + dy;
            float rgb[3];
            float weight = seen(x, y, rgb);
            if (weight == 0.0f) continue;
            heard += share * weight;
            sum_b += share * (weight * row_of(code + 16, rgb[0], rgb[1], rgb[2]));
            sum_r += share * (weight * row_of(code + 20, rgb[0], rgb[1], rgb[2]));
            if (own) {
                float old = sample_at(frame, y * width + x);
                float value = (row_of(code + 12, rgb[0], rgb[1], rgb[2]) - old) * weight + old;
                frame[y * width + x] = stored(value, top);
            }
        }
    }
    if (heard == 0.0f) return;
    SAMPLE* chroma = frame + (long long)width * (height + cy) + cx * 2;
    float kept = 1.0f - (heard < 1.0f ? heard : 1.0f);
    float cb = sample_at(chroma, 0) * kept + sum_b, cr = sample_at(chroma, 1) * kept + sum_r;
    chroma[0] = stored(cb, top);
    chroma[1] = stored(cr, top);
}
