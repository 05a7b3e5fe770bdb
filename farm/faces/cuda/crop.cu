// Faces (or whole frames) cut out, scaled, turned, converted and packed for a network in one pass. See crop.py.
// Compiled with SAMPLE, SHIFT and VALUE (float or __half) set.

extern "C" __global__ void crop(
    const SAMPLE* frames, int width, int height, const float* code, int count, const int* frame_of, const float* affine,
    const int* taps, int side, int tall, int phases, int filled_x, int filled_y, const float* pack, int swapped, int interleaved,
    VALUE* out) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count * tall * side) return;
    int u = index % side, v = index / side % tall, face = index / (tall * side);
    const SAMPLE* frame = frames + (long long)frame_of[face] * (width * (height + height / 2));
    const float* map = affine + face * 6;
    int n = taps[face];
    float part = 1.0f / (float)n;
    float sum_y = 0.0f, sum_b = 0.0f, sum_r = 0.0f;
    bool filled = u < filled_x && v < filled_y;
    for (int j = 0; filled && j < n; ++j) {
        for (int i = 0; i < n; ++i) {
            float a = (float)u + (((float)i + 0.5f) * part - 0.5f), b = (float)v + (((float)j + 0.5f) * part - 0.5f);
            float x = map[0] * a + map[1] * b + map[2], y = map[3] * a + map[4] * b + map[5];
            float cb, cr;
            chroma_at(frame, width, height, code, x, y, &cb, &cr);
            sum_y += luma_at(frame, width, height, x, y);
            sum_b += cb;
            sum_r += cr;
        }
    }
    float scale = part * part;
    int small = side / phases, low = tall / phases;
    int picture = face * phases * phases + (v % phases) * phases + u % phases;
    int row = v / phases, column = u / phases;
    for (int channel = 0; channel < 3; ++channel) {
        int from = swapped ? 2 - channel : channel;
        float value = unit(row_of(code + from * 4, sum_y * scale, sum_b * scale, sum_r * scale));
        value = filled ? value * pack[channel] + pack[3 + channel] : 0.0f;
        long long place = interleaved ? (((long long)picture * low + row) * small + column) * 3 + channel
                                      : (((long long)picture * 3 + channel) * low + row) * small + column;
        out[place] = (VALUE)value;
    }
}
