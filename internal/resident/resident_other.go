//go:build !linux

package resident

import (
	"context"
	"os"
)

// Cache keeps nothing on this system.
type Cache struct{}

// New makes a cache that keeps nothing.
func New(Config) *Cache { return &Cache{} }

// Close does nothing.
func (c *Cache) Close(context.Context) error { return nil }

// Stats has nothing to tell.
func (c *Cache) Stats() Stats { return Stats{} }

// Open makes a view without bytes.
func (c *Cache) Open(Key, *os.File) View { return View{} }

// Forget does nothing.
func (c *Cache) Forget(Key) {}

// View has no bytes.
type View struct{}

// Close does nothing.
func (v *View) Close() {}

// Bytes has none.
func (v *View) Bytes(int64, int) []byte { return nil }

// Used does nothing.
func (v *View) Used(int) {}

// DefaultBudget is that of nothing.
func DefaultBudget() int64 { return 0 }
