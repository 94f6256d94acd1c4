// Package integration tests the project against software that others wrote:
// Debian's smbclient, smbtorture and Samba. It is a module of its own, so that what it needs
// stays out of the library's. The tests build the command and run it as a user
// would. Package guest has the kernel's iWARP, in a guest of its own.
package integration
