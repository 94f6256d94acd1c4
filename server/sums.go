package server

import "lwio/internal/account"

// Sum is the part of one resource that peers hold. It has, beside the name of the resource, four
// numbers of type int64:
//
//   - Held, the part that all peers hold, of Limit.
//   - Most, the part of the user that holds the most, of UserLimit.
//
// They are bytes for the resources whose names end in "_bytes", else pieces.
type Sum struct {
	Resource string
	account.Usage
}

// Sums returns the charged resources. Connections count from the logon, or AUTH, of their user.
func (s *Server) Sums() []Sum {
	e := s.engine
	messages, sessions, orphans := s.smb.Usage()
	opens, locks := s.cfg.FS.Usage()
	unit := int64(e.limits.MaxRecvBufferSize)
	writes := e.credits.sum.Usage()
	for _, n := range []*int64{&writes.Held, &writes.Limit, &writes.Most, &writes.UserLimit} {
		*n *= unit
	}
	return []Sum{
		{"smb_memory_bytes", messages},
		{"smb_connections", sessions},
		{"rdma_connections", e.conns.users.Usage()},
		{"rdma_write_memory_bytes", writes},
		{"rdma_read_memory_bytes", e.readUsage()},
		{"registrations", e.registered.Usage()},
		{"open_files", opens},
		{"orphaned_opens", orphans},
		{"locks", locks},
	}
}

// readUsage returns the use of the buffer pools of all providers.
func (e *engine) readUsage() (sum account.Usage) {
	e.mu.Lock()
	fabrics := e.fabrics
	e.mu.Unlock()
	for _, f := range fabrics {
		f.buffers.usage(&sum)
	}
	return sum
}
