// How a swapped crop's colours differ from the plate's under the mask, and whether the crop is usable at all.
// See colour.py. Compiled with GIVEN and MADE (float or __half) set.

__device__ inline float unit(float value) { return value < 0.0f ? 0.0f : (value > 1.0f ? 1.0f : value); }

#define SUMS 16  // weight; sum and square sum of each channel, given then made; values that are no number, by channel

// One thread a column and channel, so that neighbours read neighbours.
extern "C" __global__ void colour_columns(
    const GIVEN* given, const MADE* made, int pictures, int small, int phases, const float* mask, const float* pack,
    const float* unpack, float* sums) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= pictures * 3 * small) return;
    int column = index % small, channel = index / small % 3, picture = index / (3 * small);
    int phase = picture % (phases * phases), side = small * phases;
    const float* weights = mask + (phase / phases) * side + column * phases + phase % phases;
    float scale = pack[channel], shift = pack[3 + channel], gain = unpack[channel], bias = unpack[3 + channel];
    float heard = 0.0f, sum_b = 0.0f, square_b = 0.0f, sum_a = 0.0f, square_a = 0.0f, broken = 0.0f;
    for (int row = 0; row < small; ++row) {
        float weight = weights[row * phases * side];
        long long place = (((long long)picture * 3 + channel) * small + row) * small + column;
        float before = ((float)given[place] - shift) / scale;
        float raw = (float)made[place];
        bool sound = raw - raw == 0.0f;
        float after = sound ? unit(raw * gain + bias) : 0.0f;
        heard += weight;
        sum_b += weight * before;
        square_b += weight * before * before;
        sum_a += weight * after;
        square_a += weight * after * after;
        broken += sound ? 0.0f : 1.0f;
    }
    float* out = sums + ((long long)picture * small + column) * SUMS;
    if (channel == 0) out[0] = heard;
    out[1 + channel] = sum_b;
    out[4 + channel] = square_b;
    out[7 + channel] = sum_a;
    out[10 + channel] = square_a;
    out[13 + channel] = broken;
}

// One thread a face and sum, over all columns of its pictures.
extern "C" __global__ void colour_totals(const float* sums, int faces, int columns, double* totals) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= faces * SUMS) return;
    int k = index % SUMS, face = index / SUMS;
    double total = 0.0;
    for (int column = 0; column < columns; ++column)
        total += (double)sums[((long long)face * columns + column) * SUMS + k];
    totals[index] = total;
}

// out, 8 floats a face: gain and bias of R, G, B as the network orders them; 1 where usable; the made crop's deviation.
extern "C" __global__ void colour_faces(const double* totals, int faces, float strength, float least, float* out) {
    int face = blockIdx.x * blockDim.x + threadIdx.x;
    if (face >= faces) return;
    const double* total = totals + face * SUMS;
    double weight = total[0] > 1e-9 ? total[0] : 1e-9, widest = 0.0;
    for (int channel = 0; channel < 3; ++channel) {
        double mean_before = total[1 + channel] / weight, mean_after = total[7 + channel] / weight;
        double spread_before = total[4 + channel] / weight - mean_before * mean_before;
        double spread_after = total[10 + channel] / weight - mean_after * mean_after;
        double before = spread_before > 0.0 ? sqrt(spread_before) : 0.0;
        double after = spread_after > 0.0 ? sqrt(spread_after) : 0.0;
        double gain = after > 1e-4 ? before / after : 1.0;
        gain = gain < 0.5 ? 0.5 : (gain > 2.0 ? 2.0 : gain);
        widest = after > widest ? after : widest;
        gain = 1.0 + (double)strength * (gain - 1.0);
        out[face * 8 + channel] = (float)gain;
        out[face * 8 + 3 + channel] =
            (float)(mean_after + (double)strength * (mean_before - mean_after) - gain * mean_after);
    }
    out[face * 8 + 6] = total[13] + total[14] + total[15] == 0.0 && widest > (double)least ? 1.0f : 0.0f;
    out[face * 8 + 7] = (float)widest;
}
