//go:build !linux

package shm

import (
	"context"
	"errors"
	"net/netip"

	"lwio/rdma"
)

// OpenAdapter returns StatusDeviceNotReady: the fabric needs sealed memory files, which
// only Linux has.
func (p *Provider) OpenAdapter(context.Context, netip.Addr) (rdma.Adapter, error) {
	return nil, opError("open adapter", "", rdma.StatusDeviceNotReady, errors.ErrUnsupported)
}

// users and foreign have no use on systems without adapters.
type (
	users   struct{}
	foreign struct{}
)
