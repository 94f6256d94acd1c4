package shm

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"

	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// OpenAdapter opens an adapter; the address must be zero.
func (p *Provider) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	const op = "open adapter"
	if ctx.Err() != nil {
		return nil, rdma.CanceledBy(ctx, "shm: "+op, "")
	}
	if local.IsValid() {
		return nil, opError(op, local.String(), rdma.StatusInvalidAddress, errors.New("the fabric has no IP addresses"))
	}
	host, err := bootID()
	if err != nil {
		return nil, opError(op, "", rdma.StatusDeviceNotReady, err)
	}
	if err := ring.CheckDoorbells(); err != nil {
		return nil, opError(op, "", rdma.StatusDeviceNotReady, err)
	}
	return newAdapter(p, host, p.adapters.Add(1)), nil
}

// bootID returns an identifier of this host, which changes with each boot.
func bootID() (id [16]byte, err error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id, err
	}
	raw, err := hex.DecodeString(string(bytes.ReplaceAll(bytes.TrimSpace(text), []byte("-"), nil)))
	if err != nil {
		return id, err
	}
	if len(raw) != len(id) {
		return id, errors.New("the boot id does not have 16 bytes")
	}
	return [16]byte(raw), nil
}

// allowUID reports whether a process of the user uid may be a peer.
func (c *Config) allowUID(uid uint32) bool {
	if c.AllowUID != nil {
		return c.AllowUID(uid)
	}
	return uid == 0 || uid == uint32(os.Geteuid())
}
