package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lwio/cmd/lwio/internal/userfile"
)

// userCommand is 'lwio user' with its subcommands.
func (a *app) userCommand() *cobra.Command {
	var file string
	var asJSON bool
	user := &cobra.Command{
		Use:   "user",
		Short: "Change the users of a server",
		Long: `Add, remove and list the users in the file that 'lwio serve --password-file FILE' or its
configuration names. The file has the NT hashes of the passwords, which NTLM needs. A hash is
as good as the password, so the file must have mode 0600. A running server applies a change
after the signal SIGHUP; it disconnects a user that was removed or has a new password. A user
without a password, 'add --kerberos', logs on by Kerberos only.

The password comes from a terminal, or from --password-file, LWIO_PASSWORD_FILE or
LWIO_PASSWORD, or is the first line of the standard input.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("user has no command %q", args[0])
			}
			return cmd.Help()
		},
	}
	user.PersistentFlags().StringVar(&file, "file", "", "file of the users (required)")
	sub := func(use, short string, args cobra.PositionalArgs, run func(ctx context.Context, args []string) error) *cobra.Command {
		cmd := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usagef("user %s needs --file FILE", cmd.Name())
			}
			return run(cmd.Context(), args)
		}}
		user.AddCommand(cmd)
		return cmd
	}
	var byKerberos bool
	add := sub("add NAME", "Add a user; make the file if there is none", exactArgs(1, "one name"), func(ctx context.Context, args []string) error {
		if byKerberos {
			return setUser(file, args[0], userfile.NoPassword, false)
		}
		return a.setPassword(ctx, file, args[0], false)
	})
	add.Flags().BoolVar(&byKerberos, "kerberos", false, "without a password: the user logs on by Kerberos only")
	sub("passwd NAME", "Change the password of a user", exactArgs(1, "one name"), func(ctx context.Context, args []string) error {
		return a.setPassword(ctx, file, args[0], true)
	})
	sub("rm NAME ...", "Remove users", minArgs("one name or more"), func(_ context.Context, args []string) error {
		return removeUsers(file, args)
	})
	list := sub("list", "List the users", exactArgs(0, "no arguments"), func(context.Context, []string) error {
		return listUsers(a.stdout, file, asJSON)
	})
	list.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return user
}

// setPassword adds a user, or changes the password of a user that exists.
func (a *app) setPassword(ctx context.Context, file, name string, exists bool) error {
	if err := userfile.CheckName(name); err != nil {
		return usagef("user %q: %w", name, err)
	}
	password, err := a.logon().newPassword(ctx, name)
	if err != nil {
		return err
	}
	hash, err := userfile.Hash(password)
	if err != nil {
		return fmt.Errorf("user %s: %w", name, err)
	}
	return setUser(file, name, hash, exists)
}

// setUser adds a user with a hash, or changes the hash of a user that exists.
func setUser(file, name string, hash [16]byte, exists bool) error {
	if err := userfile.CheckName(name); err != nil {
		return usagef("user %q: %w", name, err)
	}
	return userfile.Change(file, func(f *userfile.File) error {
		switch has := f.Has(name); {
		case has && !exists:
			return fmt.Errorf("user %s: it exists already; 'lwio user passwd' changes its password", name)
		case !has && exists:
			return fmt.Errorf("user %s: there is no such user", name)
		}
		f.Set(userfile.User{Name: name, NTHash: hash})
		return nil
	})
}

// newPassword finds the new password of a user.
func (l logon) newPassword(ctx context.Context, name string) (string, error) {
	if password, ok, err := l.givenPassword(); ok || err != nil {
		return password, err
	}
	f, ok := l.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		line, err := bufio.NewReader(io.LimitReader(l.stdin, maxPassword)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the password: %w", err)
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	var typed [2]string
	for i, prompt := range []string{"New password for %s: ", "The same again for %s: "} {
		fmt.Fprintf(l.stderr, prompt, name)
		line, err := askPassword(ctx, int(f.Fd()))
		fmt.Fprintln(l.stderr)
		if err != nil {
			return "", err
		}
		typed[i] = line
	}
	if typed[0] != typed[1] {
		return "", errors.New("the two passwords differ")
	}
	return typed[0], nil
}

// removeUsers removes all named users, or none.
func removeUsers(file string, names []string) error {
	if _, err := os.Stat(file); err != nil {
		return err // before Change, which would make the file
	}
	return userfile.Change(file, func(f *userfile.File) error {
		for _, name := range names {
			if !f.Remove(name) {
				return fmt.Errorf("user %s: there is no such user", name)
			}
		}
		return nil
	})
}

// listUsers prints the names.
func listUsers(w io.Writer, file string, asJSON bool) error {
	f, err := userfile.Read(file)
	if err != nil {
		return err
	}
	names := []string{}
	for _, u := range f.Users() {
		names = append(names, u.Name)
	}
	if asJSON {
		return json.NewEncoder(w).Encode(names)
	}
	for _, name := range names {
		if _, err := fmt.Fprintln(w, printable(name)); err != nil {
			return err
		}
	}
	return nil
}
