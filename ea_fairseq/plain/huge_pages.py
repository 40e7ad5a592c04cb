"""Settings of glibc's allocator: it keeps freed memory and holds it in huge pages.

Training on a CPU takes and frees hundreds of megabytes at every update, a wide beam at every step, and without these
spends up to half of its time on page faults. They are read when a process starts.
"""

HUGE_PAGES = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": "500000000",
}
