// Textures mixed of a bank's frames, and lids laid over open eyes. See dress.py.

// `which`, `shares` (n, 3, 2): two bank frames for face, eyes and mouth. `laid` (n, 2): whether eyes and mouth come from
// others than the face. `far` (n, 2): how far the eyes are shut. `places` (4, pixels): eyes, mouth, right and left lid.
// `kind`: 1 where `bank` (frames, pixels, 3) is to be mixed, 0 where `detail` (pixels, 3) is taken. `rows` (count): faces.
extern "C" __global__ void dress(
    const int* rows, int pixels, int kind, const float* detail, const unsigned char* bank, const int* which,
    const float* shares, const int* laid, int lidded, const float* lids, const float* far, const float* places,
    float* out) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, face = rows[blockIdx.y];
    if (index >= pixels) return;
    for (int channel = 0; channel < 3; ++channel) {
        long long at = (long long)index * 3 + channel;
        float value = kind ? 0.0f : detail[at];
        for (int region = 0; kind && region < 3; ++region) {
            float place = region ? places[(long long)(region - 1) * pixels + index] : 1.0f;
            if (region && (!laid[face * 2 + region - 1] || place == 0.0f)) continue;
            const int* frame = which + face * 6 + region * 2;
            const float* share = shares + face * 6 + region * 2;
            float mixed = (float)bank[(long long)frame[0] * pixels * 3 + at] * share[0] +
                          (float)bank[(long long)frame[1] * pixels * 3 + at] * share[1];
            value = region ? value + (mixed - value) * place : mixed;
        }
        float before = value;
        for (int eye = 0; lidded && eye < 2; ++eye) {
            float share = places[(long long)(2 + eye) * pixels + index] * far[face * 2 + eye];
            if (share > 0.0f) value += (lids[at] - before) * share;
        }
        out[(long long)face * pixels * 3 + at] = value;
    }
}
