package main

import (
	"io"
	"os"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress shows how far a copy is, on a terminal; elsewhere it does nothing.
// Safe for concurrent use.
type progress struct {
	p   *mpb.Progress
	bar *mpb.Bar

	mu    sync.Mutex
	total int64
}

// newProgress makes a progress bar if w is a terminal.
func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	p := mpb.New(mpb.WithOutput(f), mpb.WithWidth(50))
	bar := p.AddBar(0,
		mpb.PrependDecorators(decor.CountersKibiByte("% .1f / % .1f")),
		mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageSpeed(decor.SizeB1024(0), "% .1f")),
	)
	return &progress{p: p, bar: bar}
}

// expect adds to what is to come.
func (p *progress) expect(bytes int64) {
	if p.bar == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += bytes
	p.bar.SetTotal(p.total, false)
}

// add tells of bytes that arrived.
func (p *progress) add(n int) {
	if p.bar != nil {
		p.bar.IncrBy(n)
	}
}

// finish draws the last state and releases the terminal.
func (p *progress) finish() {
	if p.bar == nil {
		return
	}
	p.bar.SetTotal(-1, true)
	p.p.Wait()
}
