package rdmaconn

import (
	"context"

	"lwio/internal/wire"
	"lwio/rdma"
)

const (
	// headerSize is the place of the header in the memory of a message.
	headerSize = wire.HeaderSize
	// CopyWrite is the longest write, in bytes, that is copied behind its header. The memory of a
	// longer one is registered and gathered.
	CopyWrite = 4096
	// CopyBuffer is CopyWrite for a part of a Buffer, which is registered already.
	CopyBuffer = 1024
	// bounceAlign is the alignment of the memory that small reads arrive in, in bytes.
	bounceAlign = 64
)

// messageMemory is the memory of a connection's messages. Each kind is a region of its own. Memory
// that the server can write lies in exposed, with nothing else.
type messageMemory struct {
	own     rdma.Memory // of messages
	exposed rdma.Memory // of small reads and status blocks

	sendMR, recvMR, bounceMR, statusMR rdma.MemoryRegion

	sendSize, bounceSize, readSize int // bytes of one entry, and of its longest small read
	statusSize                     int // bytes of a status message
	blocks                         []byte
}

// allocate makes the memory of n entries with small reads of up to smallRead bytes, and the answers to STAT. After an
// error close must be called too.
func (m *messageMemory) allocate(ctx context.Context, a rdma.Adapter, n, smallRead int) (err error) {
	smallRead = max(smallRead, wire.StatInfoSize)
	m.sendSize, m.bounceSize, m.readSize = headerSize+CopyWrite, (smallRead+bounceAlign-1)/bounceAlign*bounceAlign, smallRead
	recv, send, bounce := (n+1)*m.statusSize, n*m.sendSize, n*m.bounceSize
	statusAt := (bounce + wire.IOStatusBlockSize - 1) / wire.IOStatusBlockSize * wire.IOStatusBlockSize
	exposed := statusAt + n*wire.IOStatusBlockSize
	if m.own, err = a.Alloc(ctx, recv+send); err != nil {
		return err
	}
	if m.exposed, err = a.Alloc(ctx, exposed); err != nil {
		return err
	}
	m.blocks = statusMemory(m.exposed.Bytes()[statusAt:exposed])
	for _, part := range []struct {
		mr     *rdma.MemoryRegion
		memory []byte
		access rdma.Access
	}{
		{&m.recvMR, m.own.Bytes()[:recv:recv], rdma.AccessLocalWrite},
		{&m.sendMR, m.own.Bytes()[recv : recv+send], 0},
		{&m.statusMR, m.blocks, rdma.AccessRemoteWrite},
		{&m.bounceMR, m.exposed.Bytes()[:bounce:bounce], rdma.AccessRemoteWrite},
	} {
		if *part.mr, err = a.RegisterMemory(ctx, part.memory, part.access); err != nil {
			return err
		}
	}
	return nil
}

// assign gives each entry its memory.
func (m *messageMemory) assign(entries []Request) {
	send, bounce, words := m.sendMR.Bytes(), m.bounceMR.Bytes(), wordsOf(m.blocks)
	for i := range entries {
		s := &entries[i]
		s.block = &words[i]
		s.sendAt, s.landAt = i*m.sendSize, i*m.bounceSize
		s.send = send[s.sendAt:][:m.sendSize:m.sendSize]
		s.bounce = bounce[s.landAt:][:m.readSize]
	}
}

// statusAddr is where the status block of an entry lies for the server.
func (m *messageMemory) statusAddr(s *Request) rdma.RemoteAddr {
	at := m.statusMR.RemoteAddr()
	at.Addr += uint64(s.index) * wire.IOStatusBlockSize
	return at
}

// BounceAddr is where the data of a small read arrives, for the server.
func (c *Conn) BounceAddr(s *Request) rdma.RemoteAddr {
	at := c.memory.bounceMR.RemoteAddr()
	at.Addr += uint64(s.landAt)
	return at
}

// close ends the registrations and frees the memory.
func (m *messageMemory) close() {
	for _, mr := range []rdma.MemoryRegion{m.sendMR, m.bounceMR, m.recvMR, m.statusMR} {
		if mr != nil {
			mr.Close()
		}
	}
	for _, memory := range []rdma.Memory{m.own, m.exposed} {
		if memory != nil {
			memory.Close()
		}
	}
}
