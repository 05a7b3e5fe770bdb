// Whether a network's crop can be used: whether all of it is numbers, and whether it shows anything under the mask.
// See usable.py. Compiled with MADE (float or __half) set.

__device__ inline float unit(float value) { return value < 0.0f ? 0.0f : (value > 1.0f ? 1.0f : value); }

#define SUMS 10  // weight; sum and square sum of each channel; values that are no number, by channel

// One thread a column and channel, so that neighbours read neighbours.
extern "C" __global__ void usable_columns(
    const MADE* made, int pictures, int small, int phases, const float* mask, const float* unpack, float* sums) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= pictures * 3 * small) return;
    int column = index % small, channel = index / small % 3, picture = index / (3 * small);
    int phase = picture % (phases * phases), side = small * phases;
    const float* weights = mask + (phase / phases) * side + column * phases + phase % phases;
    float gain = unpack[channel], bias = unpack[3 + channel];
    float heard = 0.0f, sum = 0.0f, square = 0.0f, broken = 0.0f;
    for (int row = 0; row < small; ++row) {
        float weight = weights[row * phases * side];
        long long place = (((long long)picture * 3 + channel) * small + row) * small + column;
        float raw = (float)made[place];
        bool sound = raw - raw == 0.0f;
        float value = sound ? unit(raw * gain + bias) : 0.0f;
        heard += weight;
        sum += weight * value;
        square += weight * value * value;
        broken += sound ? 0.0f : 1.0f;
    }
    float* out = sums + ((long long)picture * small + column) * SUMS;
    if (channel == 0) out[0] = heard;
    out[1 + channel] = sum;
    out[4 + channel] = square;
    out[7 + channel] = broken;
}

// One thread a face and sum, over all columns of its pictures.
extern "C" __global__ void usable_totals(const float* sums, int faces, int columns, double* totals) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= faces * SUMS) return;
    int k = index % SUMS, face = index / SUMS;
    double total = 0.0;
    for (int column = 0; column < columns; ++column)
        total += (double)sums[((long long)face * columns + column) * SUMS + k];
    totals[index] = total;
}

// out, one float a face: 1 where usable.
extern "C" __global__ void usable_faces(const double* totals, int faces, float least, float* out) {
    int face = blockIdx.x * blockDim.x + threadIdx.x;
    if (face >= faces) return;
    const double* total = totals + face * SUMS;
    double weight = total[0] > 1e-9 ? total[0] : 1e-9, widest = 0.0;
    for (int channel = 0; channel < 3; ++channel) {
        double mean = total[1 + channel] / weight;
        double spread = total[4 + channel] / weight - mean * mean;
        spread = spread > 0.0 ? sqrt(spread) : 0.0;
        widest = spread > widest ? spread : widest;
    }
    out[face] = total[7] + total[8] + total[9] == 0.0 && widest > (double)least ? 1.0f : 0.0f;
}
