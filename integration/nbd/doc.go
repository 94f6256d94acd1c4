// Package nbd tests 'lwio nbd' with clients of other projects: qemu-img, nbdcopy, nbdinfo and nbdsh of libnbd, and fio.
package nbd
