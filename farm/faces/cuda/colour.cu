// How a swapped crop's colours differ from the plate's under the mask, and whether the crop is usable at all.
// See colour.py. Compiled with GIVEN and MADE (float or __half) set.

__device__ inline float unit(float value) { return value < 0.0f ? 0.0f : (value > 1.0f ? 1.0f : value); }

#define SUMS 14  // weight; sum and square sum of each channel, given then made; values that are no number

extern "C" __global__ void colour_rows(
    const GIVEN* given, const MADE* made, int pictures, int small, int phases, const float* mask, const float* pack,
    const float* unpack, float* sums) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= pictures * small) return;
    int row = index % small, picture = index / small;
    int phase = picture % (phases * phases), side = small * phases;
    const float* weights = mask + (row * phases + phase / phases) * side + phase % phases;
    float total[SUMS];
    for (int k = 0; k < SUMS; ++k) total[k] = 0.0f;
    for (int column = 0; column < small; ++column) {
        float weight = weights[column * phases];
        total[0] += weight;
        for (int channel = 0; channel < 3; ++channel) {
            long long place = (((long long)picture * 3 + channel) * small + row) * small + column;
            float before = ((float)given[place] - pack[3 + channel]) / pack[channel];
            float raw = (float)made[place];
            bool sound = raw - raw == 0.0f;
            float after = sound ? unit(raw * unpack[channel] + unpack[3 + channel]) : 0.0f;
            total[1 + channel] += weight * before;
            total[4 + channel] += weight * before * before;
            total[7 + channel] += weight * after;
            total[10 + channel] += weight * after * after;
            total[13] += sound ? 0.0f : 1.0f;
        }
    }
    for (int k = 0; k < SUMS; ++k) sums[index * SUMS + k] = total[k];
}

// out, 8 floats a face: gain and bias of R, G, B as the network orders them; 1 where usable; the made crop's deviation.
extern "C" __global__ void colour_faces(
    const float* sums, int faces, int rows, float strength, float least, float* out) {
    int face = blockIdx.x * blockDim.x + threadIdx.x;
    if (face >= faces) return;
    double total[SUMS];
    for (int k = 0; k < SUMS; ++k) total[k] = 0.0;
    for (int row = 0; row < rows; ++row)
        for (int k = 0; k < SUMS; ++k) total[k] += (double)sums[((long long)face * rows + row) * SUMS + k];
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
    out[face * 8 + 6] = total[13] == 0.0 && widest > (double)least ? 1.0f : 0.0f;
    out[face * 8 + 7] = (float)widest;
}
