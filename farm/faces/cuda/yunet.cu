// YuNet's twelve outputs to faces, without leaving the device. See yunet.py.

#define MOST 32    // faces kept a frame
#define FIELDS 15  // score, box x0 y0 x1 y1, five points

struct Heads {
    const float *cls[3], *obj[3], *bbox[3], *kps[3];
};

// Cells are told through all three levels: `fine` of stride 8, a quarter as many of 16, a sixteenth of 32.
__device__ inline int cells_of(int fine) { return fine + fine / 4 + fine / 16; }

__device__ inline int level_of(int cell, int fine) { return cell < fine ? 0 : (cell < fine + fine / 4 ? 1 : 2); }

__device__ inline int start_of(int level, int fine) { return level == 0 ? 0 : (level == 1 ? fine : fine + fine / 4); }

__device__ inline float certain(float value) { return value < 0.0f ? 0.0f : (value > 1.0f ? 1.0f : value); }

__device__ inline void box_of(const Heads& heads, int frame, int cell, int fine, int across, float* box) {
    int level = level_of(cell, fine), local = cell - start_of(level, fine);
    int stride = 8 << level, cells = across >> level;
    const float* shape = heads.bbox[level] + ((long long)frame * (fine >> (2 * level)) + local) * 4;
    float x = ((float)(local % cells) + shape[0]) * (float)stride, y = ((float)(local / cells) + shape[1]) * (float)stride;
    float w = expf(shape[2]) * (float)stride * 0.5f, h = expf(shape[3]) * (float)stride * 0.5f;
    box[0] = x - w, box[1] = y - h, box[2] = x + w, box[3] = y + h;
}

#define HEADS                                                                                                          \
    const float *cls8, const float *cls16, const float *cls32, const float *obj8, const float *obj16,                  \
        const float *obj32, const float *box8, const float *box16, const float *box32, const float *kps8,              \
        const float *kps16, const float *kps32
#define GATHERED                                                                                                       \
    { {cls8, cls16, cls32}, {obj8, obj16, obj32}, {box8, box16, box32}, { kps8, kps16, kps32 } }

// found[frame]: how many cells are above `least`; cells and scores list them, in any order.
extern "C" __global__ void yunet_cells(
    HEADS, int frames, int fine, float least, int* found, int* cells, float* scores) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, all = cells_of(fine);
    if (index >= frames * all) return;
    Heads heads = GATHERED;
    int frame = index / all, cell = index % all;
    int level = level_of(cell, fine), local = cell - start_of(level, fine);
    long long place = (long long)frame * (fine >> (2 * level)) + local;
    float score = sqrtf(certain(heads.cls[level][place]) * certain(heads.obj[level][place]));
    if (!(score > least)) return;
    int slot = atomicAdd(found + frame, 1);
    cells[frame * all + slot] = cell;
    scores[frame * all + slot] = score;
}

// across: cells of stride 8 in a row. Best first, ties by cell, so that the order in `cells` does not matter; a face that overlaps a better one is dropped.
extern "C" __global__ void yunet_faces(
    HEADS, int frames, int fine, int across, float most_overlap, const int* found, const int* cells, float* scores, int* kept, float* out) {
    int frame = blockIdx.x * blockDim.x + threadIdx.x;
    if (frame >= frames) return;
    Heads heads = GATHERED;
    int count = found[frame], faces = 0;
    const int* mine = cells + frame * cells_of(fine);
    float* score = scores + frame * cells_of(fine);
    while (true) {
        int best = -1;
        for (int k = 0; k < count; ++k)
            if (score[k] > 0.0f &&
                (best < 0 || score[k] > score[best] || (score[k] == score[best] && mine[k] < mine[best])))
                best = k;
        if (best < 0) break;
        float box[4];
        box_of(heads, frame, mine[best], fine, across, box);
        if (faces < MOST) {
            float* face = out + (frame * MOST + faces) * FIELDS;
            face[0] = score[best];
            for (int k = 0; k < 4; ++k) face[1 + k] = box[k];
            int level = level_of(mine[best], fine), local = mine[best] - start_of(level, fine);
            int stride = 8 << level, row = across >> level;
            const float* points = heads.kps[level] + ((long long)frame * (fine >> (2 * level)) + local) * 10;
            for (int k = 0; k < 10; ++k) {
                int place = k % 2 == 0 ? local % row : local / row;
                face[5 + k] = (points[k] + (float)place) * (float)stride;
            }
        }
        ++faces;
        score[best] = -1.0f;
        for (int k = 0; k < count; ++k) {
            if (!(score[k] > 0.0f)) continue;
            float other[4];
            box_of(heads, frame, mine[k], fine, across, other);
            float w = fminf(box[2], other[2]) - fmaxf(box[0], other[0]);
            float h = fminf(box[3], other[3]) - fmaxf(box[1], other[1]);
            float shared = (w > 0.0f ? w : 0.0f) * (h > 0.0f ? h : 0.0f);
            float both = (box[2] - box[0]) * (box[3] - box[1]) + (other[2] - other[0]) * (other[3] - other[1]) - shared;
            if (shared > most_overlap * fmaxf(both, 1e-9f)) score[k] = -1.0f;
        }
    }
    kept[frame] = faces;
}
