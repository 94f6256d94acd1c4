//go:build linux

package shm

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"lwio/rdma/shm/internal/ring"
)

// maxName is the length of the longest abstract name, in bytes.
const maxName = 107

// randomName returns a new abstract name.
func randomName() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return "lwio-shm-" + hex.EncodeToString(b[:])
}

// sockAddr returns the address of an abstract name.
func sockAddr(name string) *net.UnixAddr { return &net.UnixAddr{Net: "unixpacket", Name: "@" + name} }

// nameOf returns the abstract name in an address.
func nameOf(a net.Addr) string {
	u, ok := a.(*net.UnixAddr)
	if !ok || u == nil || len(u.Name) < 2 || u.Name[0] != '@' {
		return "unnamed"
	}
	return u.Name[1:]
}

// sendHello sends a start-up message with descriptors.
func sendHello(nc *net.UnixConn, h *hello, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := nc.WriteMsgUnix(h.appendTo(nil), oob, nil)
	return err
}

// receiveHello reads a start-up message, and at most due descriptors of the user. If a
// message of its kind carries a segment or a doorbell, receiveHello maps and opens them.
// Without due descriptors there is no room for any, so none is installed in this process.
func (f *foreign) receiveHello(nc *net.UnixConn, uid uint32, due int) (h hello, peer *ring.Segment, b *ring.Doorbell, err error) {
	buf := make([]byte, maxHello+1)
	var oob []byte
	if due = f.due(uid, due); due > 0 {
		oob = make([]byte, unix.CmsgLen(4*due))
	}
	n, oobn, flags, _, err := nc.ReadMsgUnix(buf, oob)
	fds := rightsIn(oob[:oobn])
	defer func() { f.discard(uid, fds) }()
	if err != nil {
		return h, nil, nil, err
	}
	if h, err = decodeHello(buf[:n]); err != nil {
		return h, nil, nil, err
	}
	if more := flags&unix.MSG_CTRUNC != 0; more || len(fds) != h.carries() {
		return h, nil, nil, fmt.Errorf("%w: %d descriptors, more: %v", errHello, len(fds), more)
	}
	if h.begins() {
		peer, err = ring.MapSegment(ring.SegmentFDs(fds[:2]), h.ring)
	}
	if err == nil && h.kind == helloAccept {
		if err = errors.Join(ring.CheckSocket(fds[2]), ring.CheckSocket(fds[3])); err == nil {
			b, err = ring.OpenDoorbell(fds[2], fds[3])
			fds = fds[:2]
		}
	}
	if err != nil {
		peer.Unmap()
		return h, nil, nil, err
	}
	return h, peer, b, nil
}

// rightsIn lists the descriptors of a control message.
func rightsIn(oob []byte) (fds []int) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range msgs {
		if got, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}
