package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Measures of a plot, in pixels.
const (
	plotWidth, plotHeight = 960, 420
	plotLeft, plotTop     = 70, 50
	curveWidth, barWidth  = 520, 260
	plotInner             = 300
)

// colours of the targets; they differ in print too.
var colours = []string{"#1b6ca8", "#c8553d", "#3a7d44", "#8b5fbf", "#b8860b", "#4a4e69", "#00798c", "#a23b72", "#6b705c"}

// WritePlot draws the summaries of a job as SVG: the distributions of latency on
// the left, the rates on the right.
func WritePlot(out io.Writer, j *Job, all []Summary) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, plotHeight+16*len(all))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="24" font-size="15">%s, blocks of %s, %d in flight, %d connections</text>`+"\n",
		plotLeft, html.EscapeString(string(j.Pattern)), FormatSize(int64(j.BlockSize)), j.Depth, j.Jobs)
	least, most, rate := bounds(all)
	axes(&b, least, most)
	for i, s := range all {
		colour := colours[i%len(colours)]
		if s.Latency.Count() > 0 {
			curve(&b, s.Latency, least, most, colour)
		}
		bar(&b, i, len(all), s.IOPS, rate, colour)
		name := strings.TrimSpace(s.Target + " " + s.Completion)
		y := plotHeight - 24 + 16*i
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">%s: %.0f a second, p50 %.1f us</text>`+"\n",
			plotLeft, y, colour, plotLeft+16, y+10, html.EscapeString(name), s.IOPS, micros(s.P50))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// bounds returns the powers of ten around all latencies, in microseconds, and the
// highest rate.
func bounds(all []Summary) (least, most, rate float64) {
	least, most = 6, -1
	for _, s := range all {
		rate = math.Max(rate, s.IOPS)
		if s.Latency.Count() > 0 {
			least = math.Min(least, math.Floor(math.Log10(math.Max(micros(s.Latency.Quantile(0)), 0.1))))
			most = math.Max(most, math.Ceil(math.Log10(math.Max(micros(s.Latency.Quantile(0.9999)), 0.1))))
		}
	}
	return least, math.Max(most, least+1), math.Max(rate, 1)
}

// across is the horizontal position of a latency.
func across(us, least, most float64) float64 {
	x := (math.Log10(math.Max(us, 0.1)) - least) / (most - least)
	return plotLeft + curveWidth*math.Min(math.Max(x, 0), 1)
}

// axes draws the frame of the curves.
func axes(b *strings.Builder, least, most float64) {
	for p := least; p <= most; p++ {
		x := across(math.Pow(10, p), least, most)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%g us</text>`+"\n",
			x, plotTop, x, plotTop+plotInner, x, plotTop+plotInner+16, math.Pow(10, p))
	}
	for _, q := range []float64{0, 0.5, 0.9, 1} {
		y := plotTop + plotInner*(1-q)
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f %%</text>`+"\n",
			plotLeft, y, plotLeft+curveWidth, y, plotLeft-6, y+4, 100*q)
	}
}

// curve draws the distribution function of the latencies.
func curve(b *strings.Builder, h *Histogram, least, most float64, colour string) {
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, colour)
	for i := 0; i <= 200; i++ {
		q := math.Min(float64(i)/200, 0.9999)
		fmt.Fprintf(b, "%.1f,%.1f ", across(micros(h.Quantile(q)), least, most), plotTop+plotInner*(1-q))
	}
	b.WriteString(`"/>` + "\n")
}

// bar draws a rate.
func bar(b *strings.Builder, i, n int, iops, rate float64, colour string) {
	width := float64(barWidth) / float64(n)
	height := plotInner * iops / rate
	x := float64(plotLeft+curveWidth+60) + width*float64(i)
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
		x, plotTop+plotInner-height, width*0.8, height, colour)
}
