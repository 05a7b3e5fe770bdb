// Gaussian blur of canvases, mirrored at their borders, across and then down. See blur.py.

// `weights` (n, most + 1): the middle's, then of pixels farther and farther away; `radius` (n). `given`, `out`:
// (pixels, channels). `step`: 0 across, 1 down.
extern "C" __global__ void blur(
    const int* box, const int* start, int channels, int step, int most, const int* radius, const float* weights,
    const float* given, float* out) {
    Spot spot = spot_of(box, start, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y);
    if (!spot.there) return;
    const float* w = weights + (long long)spot.face * (most + 1);
    int count = step ? spot.height : spot.width, own = step ? spot.y : spot.x, reach = radius[spot.face];
    for (int channel = 0; channel < channels; ++channel) {
        float sum = given[spot.at * channels + channel] * w[0];
        for (int k = 1; k <= reach; ++k) {
            float pair = 0.0f;
            for (int side = -1; side <= 1; side += 2) {
                int place = own + side * k;
                while (place < 0 || place >= count) {
                    if (count == 1) place = 0;
                    else place = place < 0 ? -place : 2 * (count - 1) - place;
                }
                long long at = step ? spot.first + (long long)place * spot.width + spot.x
                                    : spot.first + (long long)spot.y * spot.width + place;
                pair += given[at * channels + channel];
            }
            sum += pair * w[k];
        }
        out[spot.at * channels + channel] = sum;
    }
}
