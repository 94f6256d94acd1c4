//go:build !linux

package posix

import (
	"errors"
	"io/fs"
	"os"
	pathpkg "path"

	"lwio/vfs"
)

func appendFlag(vfs.HandleMode) int { return 0 }

// named checks that path still leads to node.
func (d *Dir) named(path string, node vfs.NodeID) error {
	info, err := d.Stat(path)
	if err != nil {
		return err
	}
	if info.Node() != node {
		return stale(path)
	}
	return nil
}

// Remove deletes a name.
func (d *Dir) Remove(path string, node vfs.NodeID, _ bool) error {
	if err := d.named(path, node); err != nil {
		return err
	}
	return translate(d.root.Remove(path))
}

// Rename moves a name. Without replace it checks for the target first, so that a target that
// another process creates at the same moment may be lost.
func (d *Dir) Rename(from, to string, node vfs.NodeID, replace bool) error {
	if err := d.named(from, node); err != nil {
		return err
	}
	if !replace {
		if _, err := d.root.Lstat(to); err == nil {
			return fs.ErrExist
		}
	}
	return translate(d.root.Rename(from, to))
}

// CheckRemove checks the permissions of the directory of path.
func (d *Dir) CheckRemove(path string) error {
	fi, err := d.root.Stat(pathpkg.Dir(path))
	if err != nil {
		return translate(err)
	}
	if fi.Mode()&writeBits == 0 {
		return &fs.PathError{Op: "access", Path: path, Err: os.ErrPermission}
	}
	return nil
}

// Volume is not supported on this system.
func (d *Dir) Volume() (vfs.VolumeInfo, error) {
	return vfs.VolumeInfo{}, errors.ErrUnsupported
}
