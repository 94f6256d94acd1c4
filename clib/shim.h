/* What shim.c and the functions in Go have in common. */
#ifndef LWIO_SHIM_H
#define LWIO_SHIM_H

#include "lwio.h"

/* Bytes of the text of a failure, its NUL included. */
#define LWIO_TEXT_SIZE 1024
#define LWIO_VERSION "0.1.0"

#endif
