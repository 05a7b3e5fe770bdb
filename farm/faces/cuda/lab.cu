// Swapped crops with mean and spread of their Lab channels moved to the plate's, under the mask. See lab.py.
// Compiled with GIVEN and MADE (float or __half) set.
// `space` (floats): 0-8 linear R, G, B to X, Y, Z as shares of white (3 x 3), 9-17 the way back.

#define SUMS 13  // pixels; sum and square sum of L, a, b, given then made

__device__ inline float unit(float value) { return value < 0.0f ? 0.0f : (value > 1.0f ? 1.0f : value); }

__device__ inline float linear(float value) {
    return value <= 0.04045f ? value / 12.92f : powf((value + 0.055f) / 1.055f, 2.4f);
}

__device__ inline float encoded(float value) {
    return value <= 0.0031308f ? value * 12.92f : 1.055f * powf(value, 1.0f / 2.4f) - 0.055f;
}

__device__ inline float bent(float value) {
    return value > 0.008856f ? cbrtf(value) : 7.787f * value + 16.0f / 116.0f;
}

__device__ inline float straight(float value) {
    return value > 7.787f * 0.008856f + 16.0f / 116.0f ? value * value * value : (value - 16.0f / 116.0f) / 7.787f;
}

__device__ inline float dot(const float* row, const float* v) { return row[0] * v[0] + row[1] * v[1] + row[2] * v[2]; }

__device__ inline void lab_of(const float* space, const float* rgb, float* lab) {
    float light[3] = {linear(rgb[0]), linear(rgb[1]), linear(rgb[2])};
    float y = dot(space + 3, light);
    float fx = bent(dot(space, light)), fy = bent(y), fz = bent(dot(space + 6, light));
    lab[0] = y > 0.008856f ? 116.0f * fy - 16.0f : 903.3f * y;
    lab[1] = 500.0f * (fx - fy);
    lab[2] = 200.0f * (fy - fz);
}

__device__ inline void rgb_of(const float* space, const float* lab, float* rgb) {
    bool dark = lab[0] <= 0.008856f * 903.3f;
    float y = lab[0] / 903.3f, fy = (lab[0] + 16.0f) / 116.0f;
    if (dark) fy = 7.787f * y + 16.0f / 116.0f;
    float white[3] = {straight(lab[1] / 500.0f + fy), dark ? y : fy * fy * fy, straight(fy - lab[2] / 200.0f)};
    for (int c = 0; c < 3; ++c) rgb[c] = unit(encoded(unit(dot(space + 9 + 3 * c, white))));
}

// One thread a column of a picture. Of a crop that is no number the sums are none either; nobody lays it.
extern "C" __global__ void lab_columns(
    const GIVEN* given, const MADE* made, int pictures, int small, int phases, const float* masks, const int* mask_of,
    const float* strength, const float* pack, int pack_swapped, const float* unpack, int unpack_swapped,
    const float* space, double* sums) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= pictures * small) return;
    int column = index % small, picture = index / small, boost = phases * phases, face = picture / boost;
    int phase = picture % boost, side = small * phases;
    const float* mask = masks + (long long)mask_of[face] * side * side + (phase / phases) * side + column * phases + phase % phases;
    long long plane = (long long)small * small, first = (long long)picture * 3 * plane + column;
    double heard[SUMS];
    for (int k = 0; k < SUMS; ++k) heard[k] = 0.0;
    for (int row = 0; row < small; ++row) {
        if (!(mask[(long long)row * phases * side] * strength[face] > 0.5f)) continue;
        float before[3], after[3], lab[6];
        for (int c = 0; c < 3; ++c) {
            long long place = first + c * plane + (long long)row * small;
            before[pack_swapped ? 2 - c : c] = ((float)given[place] - pack[3 + c]) / pack[c];
            after[unpack_swapped ? 2 - c : c] = unit((float)made[place] * unpack[c] + unpack[3 + c]);
        }
        lab_of(space, before, lab);
        lab_of(space, after, lab + 3);
        heard[0] += 1.0;
        for (int c = 0; c < 3; ++c) {
            heard[1 + c] += (double)lab[c];
            heard[4 + c] += (double)lab[c] * (double)lab[c];
            heard[7 + c] += (double)lab[3 + c];
            heard[10 + c] += (double)lab[3 + c] * (double)lab[3 + c];
        }
    }
    for (int k = 0; k < SUMS; ++k) sums[(long long)index * SUMS + k] = heard[k];
}

// One thread a face and sum, over all columns of its pictures.
extern "C" __global__ void lab_totals(const double* sums, int faces, int columns, double* totals) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= faces * SUMS) return;
    int k = index % SUMS, face = index / SUMS;
    double total = 0.0;
    for (int column = 0; column < columns; ++column) total += sums[((long long)face * columns + column) * SUMS + k];
    totals[index] = total;
}

// moves, 10 floats a face: 1 where the mask shows any pixel; mean, gain and wanted mean of L, a, b.
extern "C" __global__ void lab_moves(const double* totals, int faces, float* moves) {
    int face = blockIdx.x * blockDim.x + threadIdx.x;
    if (face >= faces) return;
    const double* total = totals + face * SUMS;
    float* move = moves + face * 10;
    double count = total[0] > 0.0 ? total[0] : 1.0;
    move[0] = total[0] > 0.0 ? 1.0f : 0.0f;
    for (int c = 0; c < 3; ++c) {
        double wanted = total[1 + c] / count, mean = total[7 + c] / count;
        double theirs = total[4 + c] / count - wanted * wanted, ours = total[10 + c] / count - mean * mean;
        theirs = theirs > 0.0 ? sqrt(theirs) : 0.0;
        ours = ours > 0.0 ? sqrt(ours) : 0.0;
        double gain = theirs / (ours > 1e-3 ? ours : 1e-3);
        move[1 + c] = (float)mean;
        move[4 + c] = (float)(gain < 0.5 ? 0.5 : (gain > 2.0 ? 2.0 : gain));
        move[7 + c] = (float)wanted;
    }
}

// In place, one thread a pixel of a picture.
extern "C" __global__ void lab_recolour(
    MADE* made, int pictures, int small, int phases, const float* unpack, int swapped, const float* space,
    const float* moves, float share) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    int plane = small * small;
    if (index >= pictures * plane) return;
    int picture = index / plane;
    const float* move = moves + picture / (phases * phases) * 10;
    if (move[0] == 0.0f) return;
    long long first = (long long)picture * 3 * plane + index % plane;
    float rgb[3], lab[3], matched[3];
    for (int c = 0; c < 3; ++c) {
        rgb[swapped ? 2 - c : c] = unit((float)made[first + (long long)c * plane] * unpack[c] + unpack[3 + c]);
    }
    lab_of(space, rgb, lab);
    for (int c = 0; c < 3; ++c) lab[c] = (lab[c] - move[1 + c]) * move[4 + c] + move[7 + c];
    rgb_of(space, lab, matched);
    for (int c = 0; c < 3; ++c) {
        int from = swapped ? 2 - c : c;
        float value = rgb[from] + (matched[from] - rgb[from]) * share;
        made[first + (long long)c * plane] = (MADE)((value - unpack[3 + c]) / unpack[c]);
    }
}
