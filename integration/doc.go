// Package integration tests the project against independent software: Debian's smbclient,
// smbtorture, Samba, rclone and restic. It is a module of its own, which keeps its dependencies out of the
// library's. The tests build the command and run it as a user does. Package guest has the
// kernel's iWARP and SMB client, in an emulated guest. Package survive has servers that are killed,
// connections that are cut, and disks that fail.
package integration
