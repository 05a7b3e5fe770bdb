// A fixed picture (the visible label) blended into the same place of every frame of a batch. See overlay.py.
// Compiled with SAMPLE and SHIFT set. One thread owns one luma sample of the box, or one chroma pair of its span.

extern "C" __global__ void overlay_luma(
    SAMPLE* frames, int width, int height, int count, int left, int top, int columns, int rows, const float* values,
    const float* weight, float most) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, frame = blockIdx.y;
    if (frame >= count || index >= columns * rows) return;
    SAMPLE* picture = frames + (long long)frame * (width * (height + height / 2));
    int place = (top + index / columns) * width + left + index % columns;
    float old = sample_at(picture, place);
    picture[place] = stored((values[index] - old) * weight[index] + old, most);
}

extern "C" __global__ void overlay_chroma(
    SAMPLE* frames, int width, int height, int count, int left, int top, int columns, int rows, const float* cb,
    const float* cr, const float* weight, float most) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, frame = blockIdx.y;
    if (frame >= count || index >= columns * rows) return;
    SAMPLE* picture = frames + (long long)frame * (width * (height + height / 2)) + (long long)width * height;
    int place = (top + index / columns) * width + (left + index % columns) * 2;
    picture[place] = stored(sample_at(picture, place) * weight[index] + cb[index], most);
    picture[place + 1] = stored(sample_at(picture, place + 1) * weight[index] + cr[index], most);
}
