package server

import (
	"lwio/internal/account"
	"lwio/vfs"
)

// Resource is a limited resource, and the part of it that peers hold: bytes if Name ends in "_bytes",
// else pieces.
type Resource struct {
	Name string
	// Held is the part that all peers hold, of Limit.
	Held, Limit int64
	// UserHeld is the part of the user that holds the most, of UserLimit.
	UserHeld, UserLimit int64
}

// Resources returns the limited resources. Connections count from the logon, or AUTH, of their user.
func (s *Server) Resources() []Resource {
	e := s.engine
	messages, sessions, orphans := s.smb.Usage()
	opens, locks := s.cfg.FS.Usage()
	unit := int64(e.limits.MaxRecvBufferSize)
	writes := e.credits.sum.Usage()
	for _, n := range []*int64{&writes.Held, &writes.Limit, &writes.Most, &writes.UserLimit} {
		*n *= unit
	}
	return []Resource{
		resource("smb_memory_bytes", messages),
		resource("smb_connections", sessions),
		resource("rdma_connections", e.conns.users.Usage()),
		resource("rdma_write_memory_bytes", writes),
		resource("rdma_read_memory_bytes", e.readUsage()),
		resource("registrations", e.registered.Usage()),
		ofFiles("open_files", opens),
		resource("orphaned_opens", orphans),
		ofFiles("locks", locks),
	}
}

func resource(name string, u account.Usage) Resource {
	return Resource{Name: name, Held: u.Held, Limit: u.Limit, UserHeld: u.Most, UserLimit: u.UserLimit}
}

func ofFiles(name string, u vfs.Usage) Resource {
	return Resource{Name: name, Held: u.Held, Limit: u.Limit, UserHeld: u.UserHeld, UserLimit: u.UserLimit}
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
