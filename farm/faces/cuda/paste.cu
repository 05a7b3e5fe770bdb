// Swapped crops blended into the frames' own samples, inside each face's box only. See paste.py.
// Compiled with SAMPLE, SHIFT and VALUE (float or __half) set.

#define LEAST (1.0f / 512.0f)  // a fainter mask is none

// The crop's R, G, B and mask at luma pixel (x, y); returns the mask times `strength`, 0 outside the crop.
__device__ inline float crop_at(
    const VALUE* faces, const float* mask, float strength, int face, int side, int phases, int swapped, const float* unpack,
    const float* map, float x, float y, float* rgb) {
    float u = map[0] * x + map[1] * y + map[2], v = map[3] * x + map[4] * y + map[5];
    float last = (float)(side - 1);
    if (!(u >= 0.0f && v >= 0.0f && u <= last && v <= last)) return 0.0f;
    int u0 = (int)u, v0 = (int)v;
    int u1 = u0 + 1 < side ? u0 + 1 : u0, v1 = v0 + 1 < side ? v0 + 1 : v0;
    float pu = u - (float)u0, pv = v - (float)v0;
    float above = mask[v0 * side + u0] * (1.0f - pu) + mask[v0 * side + u1] * pu;
    float below = mask[v1 * side + u0] * (1.0f - pu) + mask[v1 * side + u1] * pu;
    float weight = (above * (1.0f - pv) + below * pv) * strength;
    if (!(weight >= LEAST)) return 0.0f;
    int small = side / phases;
    long long plane = (long long)small * small, first = (long long)face * phases * phases * 3 * plane;
    int at[2][2];
    long long from[2][2];
    const int us[2] = {u0, u1}, vs[2] = {v0, v1};
    for (int j = 0; j < 2; ++j)
        for (int i = 0; i < 2; ++i) {
            from[j][i] = first + (long long)((vs[j] % phases) * phases + us[i] % phases) * 3 * plane;
            at[j][i] = vs[j] / phases * small + us[i] / phases;
        }
    for (int channel = 0; channel < 3; ++channel) {
        float top = (float)faces[from[0][0] + channel * plane + at[0][0]] * (1.0f - pu) +
                    (float)faces[from[0][1] + channel * plane + at[0][1]] * pu;
        float bottom = (float)faces[from[1][0] + channel * plane + at[1][0]] * (1.0f - pu) +
                       (float)faces[from[1][1] + channel * plane + at[1][1]] * pu;
        float value = top * (1.0f - pv) + bottom * pv;
        rgb[swapped ? 2 - channel : channel] = unit(value * unpack[channel] + unpack[3 + channel]);
    }
    return weight;
}

// A face's crop as it is laid: `mask` and `map` its own.
struct OnCrop {
    const VALUE* faces;
    const float *mask, *unpack, *map;
    float strength;
    int face, side, phases, swapped, width, height;

    __device__ float operator()(int x, int y, float* rgb) const {
        if (x < 0 || y < 0 || x >= width || y >= height) return 0.0f;
        return crop_at(faces, mask, strength, face, side, phases, swapped, unpack, map, (float)x, (float)y, rgb);
    }
};

extern "C" __global__ void paste(
    SAMPLE* frames, int width, int height, const float* code, int count, const int* frame_of, const int* box,
    const float* affine, int side, int phases, const VALUE* faces, const float* unpack, int swapped, const float* masks,
    const int* mask_of, const float* strength, const float* usable, int layer, const int* layers, int across) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, face = blockIdx.y;
    if (face >= count || layers[face] != layer || usable[face] == 0.0f) return;
    int cx = box[face * 4] / 2 + index % across, cy = box[face * 4 + 1] / 2 + index / across;
    if (cx >= box[face * 4 + 2] / 2 || cy >= box[face * 4 + 3] / 2) return;
    SAMPLE* frame = frames + (long long)frame_of[face] * (width * (height + height / 2));
    const float* map = affine + face * 6;
    const float* mask = masks + (long long)mask_of[face] * side * side;
    OnCrop seen{faces, mask, unpack, map, strength[face], face, side, phases, swapped, width, height};
    blend_cell(frame, width, height, code, cx, cy, seen);
}
