"""Settings of the allocators of glibc and oneDNN, which are read when a process starts.

Training on a CPU takes and frees hundreds of megabytes at every update, and search with a wide beam at every step. If
glibc returned this memory, up to half of the time would go into page faults, so it keeps freed memory, in huge pages.
oneDNN caches what it compiles for each size of a matrix product. These small blocks last, and lie scattered between
the freed ones, so with texts of many lengths the heap grows from update to update; with a small cache it hardly does.
"""

MEMORY_SETTINGS = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": "500000000",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "32",  # the sizes of a layer, which the others share
}
