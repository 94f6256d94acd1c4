package main

import (
	"errors"
	"io/fs"
	"path/filepath"

	"lwio/vfs"
	"lwio/vfs/posix"
)

// usersKey names the file of users of a configuration in an error.
const usersKey = "config, key users:"

// ownFiles returns the files of a server that no client may read or change, with the flags that name them.
func (o *serveOptions) ownFiles(passwordFile string) map[string]string {
	files := map[string]string{
		"password-file": passwordFile, "config": o.configFile, "keytab": o.Keytab, "state": o.State, "audit": o.Audit,
	}
	if o.file != nil {
		files[usersKey] = o.file.Users
	}
	return files
}

// roots are the names of shares by the directories that they serve.
type roots map[vfs.NodeID]string

// rootsOf returns the directories of shares.
func rootsOf(shares []vfs.Share) (roots, error) {
	r := make(roots)
	for _, s := range shares {
		info, err := s.Backend.Stat("")
		if err != nil {
			return nil, err
		}
		r[info.Node()] = s.Name
	}
	return r, nil
}

// checkApart refuses files of the server that are in a directory of a share: the clients of the share could
// read or change them.
func (r roots) checkApart(files map[string]string) error {
	for flag, name := range files {
		if name == "" || name == "-" {
			continue
		}
		share, err := r.shareAbove(name)
		if err != nil {
			return err
		}
		if share != "" {
			return usagef("--%s %s: it is in the share %s, whose clients could read or change it; put it somewhere else", flag, name, share)
		}
	}
	return nil
}

// shareAbove returns the share that has a file in its directory, or a symbolic link on the way to it; "" if
// there is none. The file need not exist.
func (r roots) shareAbove(name string) (share string, err error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", err
		default:
			if share, err := r.shareAt(dir); share != "" || err != nil {
				return share, err
			}
			if real != dir {
				if share, err := r.shareAbove(filepath.Join(real, "file")); share != "" || err != nil {
					return share, err
				}
			}
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		return r.shareAbove(real)
	}
	return "", nil
}

// shareAt returns the share whose root a directory is; "" if it is none. A directory that cannot be read is none.
func (r roots) shareAt(dir string) (string, error) {
	d, err := posix.OpenDir(dir)
	if errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer d.Close()
	info, err := d.Stat("")
	if err != nil {
		return "", err
	}
	return r[info.Node()], nil
}
