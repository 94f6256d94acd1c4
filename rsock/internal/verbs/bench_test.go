package verbs

import (
	"errors"
	"runtime"
	"testing"
)

// BenchmarkPingPong sends 96 bytes in both directions. Both sides poll without sleeping.
func BenchmarkPingPong(b *testing.B) {
	for _, f := range fabrics {
		b.Run(f.name, func(b *testing.B) {
			x, y := pair(b, f, nil, 4096)
			stop := make(chan struct{})
			done := make(chan error, 1)
			posted := make(chan struct{})
			go func() { done <- y.echo(posted, stop) }()
			<-posted
			b.ResetTimer()
			err := x.ping(b.N)
			b.StopTimer()
			close(stop)
			if err := errors.Join(err, <-done, x.Err(), y.Err()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

const pingSize = 96

// ping sends n messages and waits for the echo of each.
func (e *end) ping(n int) error {
	var send, recv Overlapped
	bufs, back := e.part(0, pingSize), e.part(1024, pingSize)
	for range n {
		if err := e.Recv(&recv, back, Defer); err != nil {
			return err
		}
		if err := e.Send(&send, bufs, 0); err != nil {
			return err
		}
		if err := e.spin(&recv, nil); err != nil {
			return err
		}
		if err := e.spin(&send, nil); err != nil {
			return err
		}
	}
	return nil
}

// echo sends received bytes back until stop is closed.
func (e *end) echo(posted chan<- struct{}, stop <-chan struct{}) error {
	var send, recv [2]Overlapped
	var in, out [2][]BufferEx
	for i := range in {
		in[i], out[i] = e.part(i*1024, 1024), e.part(2048+i*1024, pingSize)
		if err := e.Recv(&recv[i], in[i], 0); err != nil {
			return err
		}
	}
	close(posted)
	for i := 0; ; i = 1 - i {
		if err := e.spin(&recv[i], stop); err != nil || !recv[i].isDone() {
			return err
		}
		copy(e.buf[out[i][0].Offset:], e.buf[in[i][0].Offset:in[i][0].Offset+pingSize])
		if err := e.Recv(&recv[i], in[i], Defer); err != nil {
			return err
		}
		if err := e.Send(&send[i], out[i], 0); err != nil {
			return err
		}
	}
}

// spin polls until a request has ended, or stop is closed.
func (e *end) spin(o *Overlapped, stop <-chan struct{}) error {
	for i := 1; !o.isDone(); i++ {
		if _, err := e.Poll(); err != nil {
			return err
		}
		if i%256 == 0 {
			select {
			case <-stop:
				return nil
			default:
				runtime.Gosched()
			}
		}
	}
	_, err := e.GetResult(o)
	return err
}
