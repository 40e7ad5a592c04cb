"""Settings of glibc's allocator: it keeps freed memory and holds it in huge pages.

Training on a CPU takes and frees hundreds of megabytes at every update, and search with a wide beam at every step.
Without these settings, up to half of the time goes into page faults. They are read when a process starts.
"""

HUGE_PAGES = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": "500000000",
}
