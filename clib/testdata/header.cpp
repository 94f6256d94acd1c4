// The header alone, in C++.
#include <lwio.h>

int main() { return lwio_abi_version() == LWIO_ABI_VERSION ? 0 : 1; }
