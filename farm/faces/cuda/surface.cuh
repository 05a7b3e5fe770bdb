// Semi-planar frames (NV12, P010) and how to read them. Compiled with SAMPLE (unsigned char or unsigned short) and SHIFT
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
