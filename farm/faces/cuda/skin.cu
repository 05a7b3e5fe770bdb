// The identity's skin in the plate's light, grain and sharpness, on every face's canvas. See skin.py.

// `textures` (n, fine, fine, 3): the identity's detail. `tones` (n, broad, broad, 10): own RGB, plate RGB, ratios darker RGB
// and brighter. `fields` (n, side, side, 2): where skin goes, where anything changes. `places` (side, side, 2): plain skin,
// inner face. Out: skin, plate (pixels, 3) and areas (pixels, 4): skin goes, changes, plain, inner.
extern "C" __global__ void skin_draw(
    const int* box, const int* start, int fine, int broad, int side, const float* rgb, const float* spots,
    const float* textures, const float* tones, const float* fields, const float* places, float* skin, float* plate,
    float* areas) {
    Spot spot = spot_of(box, start, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y);
    if (!spot.there) return;
    const float* where = spots + spot.at * 5;
    float u = where[0], v = where[1], x = where[2], y = where[3];
    float detail[3], tone[10], field[2], place[2];
    cubic_at(textures + (long long)spot.face * fine * fine * 3, fine, fine, u * fine - 0.5f, v * fine - 0.5f, detail);
    linear_at(tones + (long long)spot.face * broad * broad * 10, broad, 10, 0, 10, u * broad - 0.5f, v * broad - 0.5f, tone);
    float a = u * side - 0.5f, b = v * side - 0.5f;
    linear_at(fields + (long long)spot.face * side * side * 2, side, 2, 0, 2, a, b, field);
    linear_at(places, side, 2, 0, 2, a, b, place);
    for (int c = 0; c < 3; ++c) {
        float finer = detail[c] - tone[c];
        skin[spot.at * 3 + c] = tone[3 + c] + finer * (finer < 0.0f ? tone[6 + c] : tone[9]);
    }
    cubic_at(rgb + spot.first * 3, spot.width, spot.height, x, y, plate + spot.at * 3);
    float inside = where[4] > 0.5f ? 1.0f : 0.0f;
    float* area = areas + spot.at * 4;
    area[0] = field[0] * inside;
    area[1] = smooth(field[1] * inside, 0.0f, 0.5f);
    area[2] = place[0];
    area[3] = place[1];
}

// `kept` (pixels), what stays the plate's, and `areas`, both softened. Out: (pixels, 2), where skin goes and where
// anything changes.
extern "C" __global__ void skin_spare(
    const int* box, const int* start, const float* areas, const float* kept, float* out) {
    Spot spot = spot_of(box, start, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y);
    if (!spot.there) return;
    out[spot.at * 2] = areas[spot.at * 4] * (1.0f - kept[spot.at]);
    out[spot.at * 2 + 1] = areas[spot.at * 4 + 1];
}

extern "C" __global__ void skin_luma(const int* box, const int* start, const float* plate, float* luma) {
    Spot spot = spot_of(box, start, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y);
    if (!spot.there) return;
    const float* p = plate + spot.at * 3;
    luma[spot.at] = LUMA(p[0], p[1], p[2]);
}

// Adds the plate's grain to `skin`: `luma` (pixels) of the plate and `soft`, the same blurred. `clear` (pixels): hands
// taken out of `masks`, for faces with `handed`. Out: lumas (pixels, 3) of skin, plate and the plate where it was.
extern "C" __global__ void skin_grain(
    const int* box, const int* start, const float* areas, const float* luma, const float* soft, const float* rgb,
    float share, const int* handed, const float* clear, float* masks, float* skin, float* lumas) {
    Spot spot = spot_of(box, start, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y);
    if (!spot.there) return;
    float fine = luma[spot.at] - soft[spot.at], far = fine / 0.05f;
    float grain = share * fine / (1.0f + far * far) * areas[spot.at * 4 + 2];
    float* s = skin + spot.at * 3;
    for (int c = 0; c < 3; ++c) s[c] += grain;
    const float* p = rgb + spot.at * 3;
    lumas[spot.at * 3] = LUMA(s[0], s[1], s[2]);
    lumas[spot.at * 3 + 1] = luma[spot.at];
    lumas[spot.at * 3 + 2] = LUMA(p[0], p[1], p[2]);
    if (handed[spot.face]) {
        masks[spot.at * 2] *= clear[spot.at];
        masks[spot.at * 2 + 1] *= clear[spot.at];
    }
}

// `values` (pixels, channels) less `soft`, the same blurred; the first channel again in `first` (pixels).
extern "C" __global__ void skin_fine(
    const int* box, const int* start, int channels, const float* soft, float* values, float* first) {
    Spot spot = spot_of(box, start, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y);
    if (!spot.there) return;
    for (int c = 0; c < channels; ++c) values[spot.at * channels + c] -= soft[spot.at * channels + c];
    first[spot.at] = values[spot.at * channels];
}

// One thread sums one column: how many pixels of the inner face, and there the squares of the fine detail that the face
// has, that one time more adds, their product, and the square of the plate's. `sums` (n, across, 5).
extern "C" __global__ void skin_columns(
    const int* box, const int* start, const float* areas, const float* masks, const float* fines, const float* softer,
    int across, float* sums) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, face = blockIdx.y;
    if (x >= across) return;
    int width = box[face * 4 + 2] - box[face * 4], height = box[face * 4 + 3] - box[face * 4 + 1];
    float total[5] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int y = 0; x < width && y < height; ++y) {
        long long at = (long long)start[face] + (long long)y * width + x;
        float shows = masks[at * 2];
        if (!(areas[at * 4 + 3] * shows > 0.5f)) continue;
        float has = shows * fines[at * 3] + (1.0f - shows) * fines[at * 3 + 1];
        float adds = shows * (fines[at * 3] - softer[at]), own = fines[at * 3 + 2];
        total[0] += 1.0f;
        total[1] += has * has;
        total[2] += adds * adds;
        total[3] += has * adds;
        total[4] += own * own;
    }
    for (int k = 0; k < 5; ++k) sums[((long long)face * across + x) * 5 + k] = total[k];
}

// Small pictures in `values`, told by `patches` (n, 6, 5): left, top, right, bottom on the canvas, and where they begin; by
// what the skin is multiplied for the lashes of either eye, then how far each iris, then each white takes on another colour.
__device__ inline const float* patch_at(const int* patch, const float* values, int x, int y) {
    if (x < patch[0] || y < patch[1] || x >= patch[2] || y >= patch[3]) return 0;
    return values + patch[4] + (long long)(y - patch[1]) * (patch[2] - patch[0]) + (x - patch[0]);
}

// `numbers` (n, 8): how often fine detail is added, strength, the irises' and the whites' ratios RGB. Out: `skin` becomes
// the face, `mask` (pixels); `flags` (n, 2): whether it has values that are no number, and whether anything changes.
extern "C" __global__ void skin_finish(
    const int* box, const int* start, const float* numbers, const int* patches, const float* values, const float* plate,
    const float* masks, const float* fines, float* skin, float* mask, int* flags) {
    Spot spot = spot_of(box, start, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y);
    if (!spot.there) return;
    const float *told = numbers + spot.face * 8, *old = plate + spot.at * 3;
    const int* patch = patches + spot.face * 30;
    float own = masks[spot.at * 2], weight = masks[spot.at * 2 + 1] * told[1];
    float lashes = 1.0f, dyed = 0.0f, white = 0.0f;
    for (int eye = 0; eye < 2; ++eye) {
        const float* factor = patch_at(patch + eye * 5, values, spot.x, spot.y);
        if (factor) lashes *= *factor;
        const float* iris = patch_at(patch + 10 + eye * 5, values, spot.x, spot.y);
        if (iris) dyed = *iris > dyed ? *iris : dyed;
        const float* pale = patch_at(patch + 20 + eye * 5, values, spot.x, spot.y);
        if (pale) white = *pale > white ? *pale : white;
    }
    dyed *= 1.0f - smooth(LUMA(old[0], old[1], old[2]), 0.6f, 0.85f);
    bool finite = true;
    for (int c = 0; c < 3; ++c) {
        float under = old[c] * (1.0f + (told[2 + c] - 1.0f) * dyed);
        under *= 1.0f + (told[5 + c] - 1.0f) * white;
        float over = (skin[spot.at * 3 + c] + fines[spot.at * 3] * told[0]) * lashes;
        float value = under + (over - under) * own;
        finite = finite && value - value == 0.0f;
        skin[spot.at * 3 + c] = value < 0.0f ? 0.0f : (value > 1.0f ? 1.0f : value);
    }
    weight = weight < 1.0f / 512.0f ? 0.0f : weight;
    mask[spot.at] = weight;
    if (!finite) flags[spot.face * 2] = 1;
    if (weight > 0.0f) flags[spot.face * 2 + 1] = 1;
}
