package rdmaconn

import (
	"context"

	"lwio/internal/poller"
	"lwio/internal/wire"
	"lwio/rdma"
)

// landAlign is the alignment of the bounce buffers of small reads, in bytes.
const landAlign = 64

// allocate gives every entry its memory: receives and messages to send, and, in memory
// of its own, the places where small reads land and status blocks. Each kind is a
// region of its own.
func (c *Conn) allocate(ctx context.Context, n int) (err error) {
	sendSize, landSize := wire.HeaderSize+CopyWrite, (c.Cfg.CopyThreshold+landAlign-1)/landAlign*landAlign
	recv, send, land := (n+1)*wire.StatusResponseSize, n*sendSize, n*landSize
	statusAt := (land + wire.IOStatusBlockSize - 1) / wire.IOStatusBlockSize * wire.IOStatusBlockSize
	exposedSize := statusAt + n*wire.IOStatusBlockSize
	if c.Memory.mem, err = c.Adapter.Alloc(ctx, recv+send); err != nil {
		return err
	}
	if c.Memory.Land, err = c.Adapter.Alloc(ctx, exposedSize); err != nil {
		return err
	}
	own, exposed := c.Memory.mem.Bytes(), c.Memory.Land.Bytes()
	recvPart, sendPart := own[:recv:recv], own[recv:recv+send]
	landPart, statusPart := exposed[:land:land], statusMemory(exposed[statusAt:exposedSize])
	for _, part := range []struct {
		mr     *rdma.MemoryRegion
		memory []byte
		access rdma.Access
	}{
		{&c.Memory.RecvMR, recvPart, rdma.AccessLocalWrite}, {&c.Memory.SendMR, sendPart, 0},
		{&c.Memory.statusMR, statusPart, rdma.AccessRemoteWrite}, {&c.Memory.LandMR, landPart, rdma.AccessRemoteWrite},
	} {
		if *part.mr, err = c.Adapter.RegisterMemory(ctx, part.memory, part.access); err != nil {
			return err
		}
	}
	c.Table.Entries, c.Status.Polled = make([]Request, n), NewRequestSet(n)
	c.Queue.queue, c.Queue.batch = make([]rdma.Request, 0, n), make([]rdma.Request, 0, n)
	c.Table.Free.Init(c.Table.Entries)
	words := wordsOf(statusPart)
	for i := range c.Table.Entries {
		s := &c.Table.Entries[i]
		s.Index, s.sendAt, s.LandAt = i, i*sendSize, i*landSize
		s.Block = &words[i]
		s.Send = sendPart[s.sendAt : s.sendAt+sendSize : s.sendAt+sendSize]
		s.Bounce = landPart[s.LandAt : s.LandAt+c.Cfg.CopyThreshold]
		s.Sges = make([]rdma.SGE, min(c.Info.MaxInitiatorSGE, maxGather))
		s.Waiter = poller.NewWaiter()
		s.renew()
	}
	return nil
}

func (m *messageMemory) close() {
	for _, mr := range []rdma.MemoryRegion{m.SendMR, m.LandMR, m.RecvMR, m.statusMR} {
		if mr != nil {
			mr.Close()
		}
	}
	for _, m := range []rdma.Memory{m.mem, m.Land} {
		if m != nil {
			m.Close()
		}
	}
}
