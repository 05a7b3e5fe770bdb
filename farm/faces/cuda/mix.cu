// Restored crops mixed into the crops that were given, averaged where they will shrink. See mix.py.
// Compiled with GIVEN and MADE (float or __half) set. One thread a pixel.

__device__ inline float unit(float value) { return value < 0.0f ? 0.0f : (value > 1.0f ? 1.0f : value); }

__device__ inline int within(int value, int side) { return value < 0 ? 0 : (value >= side ? side - 1 : value); }

// out (crops, 3, side, side): R'G'B' 0..1, over a square of `reach` pixels to each side of the pixel.
extern "C" __global__ void mix(
    const GIVEN* given, const MADE* made, int crops, int side, const int* reach, const float* pack, int pack_swapped,
    const float* unpack, int unpack_swapped, float blend, float* out) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, plane = side * side;
    if (index >= crops * plane) return;
    int x = index % side, y = index % plane / side, crop = index / plane, far = reach[crop];
    float part = 1.0f / (float)((2 * far + 1) * (2 * far + 1));
    for (int c = 0; c < 3; ++c) {
        int from = pack_swapped ? 2 - c : c, to = unpack_swapped ? 2 - c : c;
        long long before = ((long long)crop * 3 + from) * plane, after = ((long long)crop * 3 + to) * plane;
        float sum = 0.0f;
        for (int dy = -far; dy <= far; ++dy) {
            for (int dx = -far; dx <= far; ++dx) {
                int at = within(y + dy, side) * side + within(x + dx, side);
                float old = ((float)given[before + at] - pack[3 + from]) / pack[from];
                sum += old + (unit((float)made[after + at] * unpack[to] + unpack[3 + to]) - old) * blend;
            }
        }
        out[((long long)crop * 3 + c) * plane + y * side + x] = sum * part;
    }
}
