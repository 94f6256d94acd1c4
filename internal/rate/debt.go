// Package rate bounds how often something is done. Imports the standard library only.
package rate

import "time"

// Debt is how much was had beyond what has become free since: it falls by itself, so
// much a second, to nothing. The zero value is none. Not safe for concurrent use.
type Debt struct {
	amount float64
	at     time.Time
}

// At is the debt now, of which so much falls off a second.
func (d *Debt) At(now time.Time, perSecond float64) float64 {
	if d.amount == 0 {
		return 0
	}
	return max(d.amount-max(now.Sub(d.at).Seconds(), 0)*perSecond, 0)
}

// Add makes the debt larger by n, and gives what it is then.
func (d *Debt) Add(now time.Time, perSecond, n float64) float64 {
	d.amount, d.at = d.At(now, perSecond)+n, now
	return d.amount
}
