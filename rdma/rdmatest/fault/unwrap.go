package fault

import "lwio/rdma"

// scratch holds copies of requests with unwrapped objects, during one post.
type scratch struct {
	reqs []rdma.Request
	recv []rdma.ReceiveRequest
	sges []rdma.SGE
}

func (a *adapter) scratch() *scratch {
	if s, ok := a.spare.Get().(*scratch); ok {
		return s
	}
	return new(scratch)
}

// giveBack keeps the scratch for another post, without its references.
func (a *adapter) giveBack(s *scratch) {
	clear(s.reqs)
	clear(s.recv)
	clear(s.sges)
	s.reqs, s.recv, s.sges = s.reqs[:0], s.recv[:0], s.sges[:0]
	a.spare.Put(s)
}

// sgl copies a list with unwrapped regions.
func (s *scratch) sgl(sgl []rdma.SGE) []rdma.SGE {
	if len(sgl) == 0 {
		return nil
	}
	from := len(s.sges)
	s.sges = append(s.sges, sgl...)
	out := s.sges[from:]
	for i := range out {
		out[i].Region = bareRegion(out[i].Region)
	}
	return out
}

func bareRegion(m rdma.MemoryRegion) rdma.MemoryRegion {
	if r, ok := m.(*region); ok && r != nil {
		return r.inner
	}
	return m
}

func (s *scratch) requests(reqs []rdma.Request) []rdma.Request {
	s.reqs = append(s.reqs, reqs...)
	for i := range s.reqs {
		r := &s.reqs[i]
		r.SGL = s.sgl(r.SGL)
		r.Region = bareRegion(r.Region)
		if w, ok := r.Window.(*window); ok && w != nil {
			r.Window = w.inner
		}
		if f, ok := r.File.(*fileSource); ok && f != nil {
			r.File = f.inner
		}
	}
	return s.reqs
}

func (s *scratch) receives(reqs []rdma.ReceiveRequest) []rdma.ReceiveRequest {
	s.recv = append(s.recv, reqs...)
	for i := range s.recv {
		s.recv[i].SGL = s.sgl(s.recv[i].SGL)
	}
	return s.recv
}
