package main

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// helperName is the name under which mount(8) runs the command for file systems of the type lwio.
const helperName = "mount.lwio"

// Exit statuses that mount(8) expects of a helper.
const (
	helperUsage   = 1
	helperFailure = 32
)

// helper runs the command as a helper of mount(8), and returns its exit status.
func (a *app) helper(ctx context.Context, args []string) int {
	o, err := helperOptions(args)
	if err != nil {
		fmt.Fprintln(a.stderr, helperName+": "+printable(redacted(err.Error())))
		return helperUsage
	}
	if o.fake {
		return exitOK
	}
	switch a.run(ctx, o.command) {
	case exitOK:
		return exitOK
	case exitUsage:
		return helperUsage
	}
	return helperFailure
}

// helperCall is a call of mount(8).
type helperCall struct {
	command []string // of lwio
	fake    bool     // nothing is mounted
}

// flagsOfOptions are the flags of 'lwio mount' for the options of a file system.
var flagsOfOptions = map[string]string{
	"ro": "--read-only", "noexec": "--no-exec", "allow_other": "--allow-other", "page_cache": "--page-cache", "remember": "--remember=",
	"uid": "--uid=", "gid": "--gid=", "file_mode": "--file-mode=", "dir_mode": "--dir-mode=", "password_file": "--password-file=",
	"timeout": "--timeout=", "require_rdma": "--require-rdma", "allow_md5": "--allow-md5", "no_crc": "--no-crc", "verbose": "--verbose",
}

// ignoredOptions are of mount(8), systemd and the kernel, and change nothing here: a mount of FUSE is always nosuid and nodev.
var ignoredOptions = map[string]bool{
	"rw": true, "exec": true, "suid": true, "nosuid": true, "dev": true, "nodev": true, "defaults": true, "auto": true, "noauto": true,
	"user": true, "nouser": true, "users": true, "owner": true, "group": true, "nofail": true, "_netdev": true, "async": true,
	"atime": true, "noatime": true, "relatime": true, "norelatime": true, "diratime": true, "nodiratime": true, "strictatime": true,
	"lazytime": true, "nolazytime": true, "silent": true, "loud": true, "comment": true,
}

// helperOptions translates the arguments of a helper: SPEC DIR [-sfnv] [-N namespace] [-o options] [-t type].
func helperOptions(args []string) (helperCall, error) {
	c := helperCall{command: []string{"mount", "--background"}}
	var operands []string
	var sloppy bool
	for i := 0; i < len(args); i++ {
		letters, isFlag := strings.CutPrefix(args[i], "-")
		if !isFlag || letters == "" {
			operands = append(operands, args[i])
			continue
		}
		for j, letter := range letters {
			switch letter {
			case 's':
				sloppy = true
			case 'f':
				c.fake = true
			case 'n':
			case 'v':
				c.command = append(c.command, "--verbose")
			case 'o', 't', 'N':
				value := letters[j+1:]
				if value == "" {
					if i++; i == len(args) {
						return c, fmt.Errorf("-%c needs a value", letter)
					}
					value = args[i]
				}
				switch letter {
				case 'o':
					flags, err := helperFlags(value, sloppy)
					if err != nil {
						return c, err
					}
					c.command = append(c.command, flags...)
				case 'N':
					return c, fmt.Errorf("the mount namespace %s: only that of the process is possible", value)
				}
			default:
				return c, fmt.Errorf("the flag -%c is not known", letter)
			}
			if letter == 'o' || letter == 't' || letter == 'N' {
				break
			}
		}
	}
	if len(operands) != 2 {
		return c, fmt.Errorf("usage: %s URL DIR [-fnsv] [-o OPTIONS]", helperName)
	}
	c.command = append(append(c.command, "--"), operands...)
	return c, nil
}

// helperFlags returns the flags for options.
func helperFlags(options string, sloppy bool) (flags []string, err error) {
	for option := range strings.SplitSeq(options, ",") {
		name, value, hasValue := strings.Cut(option, "=")
		flag, known := flagsOfOptions[name]
		lower := strings.ToLower(name)
		switch {
		case name == "", ignoredOptions[name], strings.HasPrefix(lower, "x-"):
		case known && strings.HasSuffix(flag, "=") == hasValue:
			flags = append(flags, flag+value)
		case known && hasValue:
			return nil, fmt.Errorf("the option %s has no value", name)
		case known:
			return nil, fmt.Errorf("the option %s needs a value", name)
		case !sloppy:
			return nil, fmt.Errorf("the option %s is not known", name)
		}
	}
	return flags, nil
}

// isHelper reports whether the program runs as a helper of mount(8).
func isHelper(program string) bool { return path.Base(program) == helperName }
