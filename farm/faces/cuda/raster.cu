// A mesh drawn on every face's canvas: which triangle a pixel shows, and where that leads. See raster.py.

#define PART 16  // bits behind the point
#define HALF (1 << (PART - 1))

struct Sheet {
    int *shown, width, height, number;
};

// The row `y` from column `first` to `last`; whatever was drawn later lies on top.
__device__ inline void mark(const Sheet* sheet, long long first, long long last, long long y) {
    if (y < 0 || y >= sheet->height) return;
    first = first < 0 ? 0 : first;
    last = last < sheet->width ? last : sheet->width - 1;
    for (long long x = first; x <= last; ++x) atomicMax(sheet->shown + y * sheet->width + x, sheet->number);
}

// One pixel for each step along the longer side of a line from (x0, y0) to (x1, y1), and its last one.
__device__ inline void line(const Sheet* sheet, long long x0, long long y0, long long x1, long long y1) {
    long long wide = x1 < x0 ? x0 - x1 : x1 - x0, tall = y1 < y0 ? y0 - y1 : y1 - y0;
    bool across = wide > tall;
    if (across ? x1 < x0 : y1 < y0) {
        long long x = x0, y = y0;
        x0 = x1, y0 = y1, x1 = x, y1 = y;
    }
    long long rise = across ? y1 - y0 : x1 - x0, length = across ? wide : tall;
    long long step = rise * (1 << PART) / (length | 1), count = length >> PART;
    mark(sheet, (x1 + HALF) >> PART, (x1 + HALF) >> PART, (y1 + HALF) >> PART);
    long long along = ((across ? x0 : y0) + HALF) >> PART, beside = (across ? y0 : x0) + HALF;
    for (; count >= 0; --count, ++along, beside += step) {
        long long x = across ? along : beside >> PART, y = across ? beside >> PART : along;
        mark(sheet, x, x, y);
    }
}

// One side of a triangle on its way down: the corner that it goes to, its row, the place and how far that moves a row.
struct Wall {
    int corner, turn, row;
    long long x, slope;
};

// One thread draws one triangle of one face. `fixed` (n, triangles, 3, 2): corners in sixteenths of a canvas pixel.
// `rank` (n, triangles): drawn later lies on top; 0 is not drawn. `shown`: the greatest rank at each pixel.
extern "C" __global__ void raster_draw(
    const int* box, const int* start, int triangles, const int* fixed, const int* rank, int* shown) {
    int triangle = blockIdx.x * blockDim.x + threadIdx.x, face = blockIdx.y;
    if (triangle >= triangles || rank[face * triangles + triangle] == 0) return;
    const int* c = fixed + ((long long)face * triangles + triangle) * 6;
    Sheet sheet;
    sheet.shown = shown + start[face];
    sheet.width = box[face * 4 + 2] - box[face * 4];
    sheet.height = box[face * 4 + 3] - box[face * 4 + 1];
    sheet.number = rank[face * triangles + triangle];
    int top = 0, bottom = c[1];
    for (int i = 0; i < 3; ++i) {
        const int *a = c + 2 * (i ? i - 1 : 2), *b = c + 2 * i;
        line(&sheet, (long long)a[0] << 12, (long long)a[1] << 12, (long long)b[0] << 12, (long long)b[1] << 12);
        top = b[1] < c[2 * top + 1] ? i : top;
        bottom = b[1] > bottom ? b[1] : bottom;
    }
    int y = (c[2 * top + 1] + 8) >> 4, left = 3;
    Wall walls[2] = {{top, 1, y, 0, 0}, {top, 2, y, 0, 0}};
    for (bottom = (bottom + 8) >> 4; y <= bottom; ++y) {
        for (int i = 0; i < 2; ++i) {
            Wall* wall = walls + i;
            int from = wall->corner, to = (from + wall->turn) % 3;
            // A wall that has come to its corner goes on along the next side that leads further down, while there is one.
            for (bool turning = y >= wall->row; turning && left-- > 0; from = to, to = (to + wall->turn) % 3) {
                int row = (c[2 * to + 1] + 8) >> 4;
                if (row <= y) continue;
                wall->x = (long long)c[2 * from] << 12;
                wall->slope = ((((long long)c[2 * to] << 12) - wall->x) * 2 + (row - y)) / (2 * (row - y));
                wall->row = row;
                wall->corner = to;
                turning = false;
            }
        }
        if (left < 0) return;
        long long one = walls[0].x, other = walls[1].x;
        mark(&sheet, ((one < other ? one : other) + HALF) >> PART, ((one < other ? other : one) + HALF) >> PART, y);
        walls[0].x += walls[0].slope;
        walls[1].x += walls[1].slope;
    }
}

// The corners' values by their weights; beyond the triangle's edge an eighth of what they span farther at most.
__device__ inline float between(float first, float second, float third, float a, float b, float c) {
    float value = first * a + second * b + third * c;
    float least = fminf(a, fminf(b, c)), most = fmaxf(a, fmaxf(b, c)), more = (most - least) * 0.125f;
    return fminf(fmaxf(value, least - more), most + more);
}

// `order` (n, triangles): the triangle of each rank, from 1. `corners` (triangles, 3). `points`, `source` (n, vertices, 2):
// where the mesh lies on the canvas and on the plate under it; `uv` (vertices, 2). `step` (n): plate pixels for a canvas
// pixel. `spots` gets u, v, x, y and whether the mesh is there, for each pixel.
extern "C" __global__ void raster_map(
    const int* box, const int* start, int triangles, int vertices, const int* shown, const int* order, const int* corners,
    const float* points, const float* source, const float* uv, const int* step, float* spots) {
    Spot spot = spot_of(box, start, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y);
    if (!spot.there) return;
    float* out = spots + spot.at * 5;
    int number = shown[spot.at];
    out[4] = number ? 1.0f : 0.0f;
    if (number == 0) {
        out[0] = out[1] = -1.0f;
        out[2] = (float)(spot.x * step[spot.face]);
        out[3] = (float)(spot.y * step[spot.face]);
        return;
    }
    const int* corner = corners + order[spot.face * triangles + number - 1] * 3;
    const float *p = points + (long long)spot.face * vertices * 2, *s = source + (long long)spot.face * vertices * 2;
    int a = corner[0] * 2, b = corner[1] * 2, c = corner[2] * 2;
    float bx = p[b] - p[a], by = p[b + 1] - p[a + 1], cx = p[c] - p[a], cy = p[c + 1] - p[a + 1];
    float dx = (float)spot.x - p[a], dy = (float)spot.y - p[a + 1];
    float area = bx * cy - by * cx, flat = area < 0.0f ? -area : area;
    float second = 1.0f / 3.0f, third = 1.0f / 3.0f;
    if (flat >= 1e-6f) {
        second = (dx * cy - dy * cx) / area;
        third = (bx * dy - by * dx) / area;
    }
    float first = 1.0f - second - third;
    for (int i = 0; i < 2; ++i) {
        out[i] = between(first, second, third, uv[a + i], uv[b + i], uv[c + i]);
        out[2 + i] = between(first, second, third, s[a + i], s[b + i], s[c + i]);
    }
}

// From canvases of every `step`-th pixel (`small_box`, `small_start`) to every pixel, linear between them.
extern "C" __global__ void raster_spread(
    const int* box, const int* start, const int* small_box, const int* small_start, const int* step, const float* small,
    float* spots) {
    Spot spot = spot_of(box, start, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y);
    if (!spot.there) return;
    int by = step[spot.face], width = small_box[spot.face * 4 + 2], height = small_box[spot.face * 4 + 3];
    int x0 = spot.x / by, y0 = spot.y / by;
    float px = (float)(spot.x % by) / (float)by, py = (float)(spot.y % by) / (float)by;
    const float* from = small + (long long)small_start[spot.face] * 5;
    const float *above = from + (long long)y0 * width * 5, *below = from + (long long)held(y0 + 1, height) * width * 5;
    int x1 = held(x0 + 1, width);
    for (int k = 0; k < 5; ++k) {
        float up = above[x0 * 5 + k] * (1.0f - px) + above[x1 * 5 + k] * px;
        float low = below[x0 * 5 + k] * (1.0f - px) + below[x1 * 5 + k] * px;
        spots[spot.at * 5 + k] = up * (1.0f - py) + low * py;
    }
}
