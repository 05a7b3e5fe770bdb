// Semi-planar frames as planar ones, values in the low bits: what encoders and the farm's frames are made of. See
// planar.py. Compiled with SAMPLE and SHIFT set. One thread owns four luma samples in a row and one chroma pair.

extern "C" __global__ void planar(const SAMPLE* frames, int width, int height, int count, SAMPLE* out) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, frame = blockIdx.y;
    int quarter = width * height / 4;
    if (frame >= count || index >= quarter) return;
    const SAMPLE* from = frames + (long long)frame * (6 * (long long)quarter);
    SAMPLE* to = out + (long long)frame * (6 * (long long)quarter);
    for (int k = 0; k < 4; ++k) to[index * 4 + k] = (SAMPLE)(from[index * 4 + k] >> SHIFT);
    const SAMPLE* chroma = from + (long long)quarter * 4 + index * 2;
    to[(long long)quarter * 4 + index] = (SAMPLE)(chroma[0] >> SHIFT);
    to[(long long)quarter * 5 + index] = (SAMPLE)(chroma[1] >> SHIFT);
}
