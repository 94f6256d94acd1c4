package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"lwio"
	"lwio/rdma"
)

// plain returns the text of an error without the prefix of the library, the dialled
// address, and the transport.
func plain(transport string, err error) string {
	text := strings.TrimPrefix(err.Error(), "lwio: ")
	var e *lwio.Error
	if errors.As(err, &e) && e.Err != nil && !e.Remote {
		text = strings.TrimPrefix(e.Err.Error(), lwio.ErrNoRDMA.Error()+": ")
	}
	for named := true; named; {
		text, named = strings.CutPrefix(text, transport+": ")
	}
	return text
}

// advice returns the next step for a transport that does not work.
func advice(transport string, err error) string {
	smb := transport == lwio.TransportSMB
	var dns *net.DNSError
	switch {
	case errors.Is(err, lwio.ErrOtherHost):
		return "nothing to do: " + transport + " works within one host"
	case errors.Is(err, lwio.ErrNotOffered):
		return "start the server with --provider " + transport
	case errors.Is(err, lwio.ErrSpoofed):
		return "another program answers at the server's RDMA port: look for a proxy between this host and the server"
	case transport == "shm" && errors.Is(err, fs.ErrPermission) && errors.Is(err, rdma.StatusConnectionAborted):
		return "the server runs as another user: if you trust it, name that user with --allow-uid here, and this user with --allow-uid at the server"
	case transport == "shm" && errors.Is(err, rdma.StatusConnectionRefused):
		return "over shared memory the server accepts its own user, root, and the users of its --allow-uid: look at its log"
	case errors.As(err, &dns):
		return "check the host's name"
	case errors.Is(err, fs.ErrNotExist):
		return "check the name of the share; lwio serve prints the URLs of its shares"
	case errors.Is(err, fs.ErrPermission) && smb:
		return "check user and password"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, fs.ErrPermission):
		return "shared memory needs the same user as the server, root, or --allow-uid on both sides; elsewhere, look at the server's log"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "raise the limit of open files (ulimit -n)"
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, rdma.StatusInsufficientResources):
		return "raise the limits of memory (ulimit -l, ulimit -v, the container's)"
	case errors.Is(err, rdma.StatusDeviceNotReady):
		return "there is no device for it on this host"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, rdma.StatusConnectionRefused):
		return "nothing listens there: is the server running, is the port right, does a firewall refuse it?"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, rdma.StatusIOTimeout):
		return "no answer: a firewall may drop it; the RDMA ports of the server must be open besides SMB's"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH),
		errors.Is(err, rdma.StatusHostUnreachable), errors.Is(err, rdma.StatusNetworkUnreachable):
		return "there is no route to the server: check address and network"
	case smb:
		return "check that an LWIO or SMB 3 server answers at this address"
	}
	return "look at the server's log; -v prints this side's"
}
