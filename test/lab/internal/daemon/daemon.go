// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package daemon starts programs that outlive the program which started them.
package daemon

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/vishvananda/netns"

	"github.com/capstan-io/capstan/test/lab/internal/cgroup"
)

// LaunchCommand is the name of the command by which this executable, started
// anew, must call [Launch] with the arguments that follow.
const LaunchCommand = "launch"

const (
	// launchArguments is how many arguments of [Launch] precede the name of
	// the program and its arguments.
	launchArguments = 3
	// failureFD is where Launch writes why it failed.
	failureFD = 3
)

// searchPath is where daemons find the programs they call.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Spec describes a daemon.
type Spec struct {
	// Name is what the daemon is called by: its zeroth argument.
	Name string
	// Program is the executable: a path, or a name to search for.
	Program string
	// Args are the arguments after the name.
	Args []string
	// Env are the variables of the daemon's environment beside its search
	// path. It inherits none, lest it depends on who started it.
	Env []string
	// Dir is the directory the daemon runs in.
	Dir string
	// Namespace is the name of the network namespace the daemon runs in; the
	// host's if empty.
	Namespace string
	// Group is the path of the control group the daemon runs in.
	Group string
	// Log is the file to which the daemon's output is appended.
	Log string
}

// Start starts a daemon in a session of its own, and returns when it runs. If
// the daemon ends before the caller does, ended is called with the reason.
//
// The new process is this executable, which enters the control group and the
// network namespace and then becomes the daemon: so the daemon has no moment
// outside of them, whatever happens to the caller.
func Start(spec Spec, ended func(error)) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own executable: %w", err)
	}
	program, err := exec.LookPath(spec.Program)
	if err != nil {
		return fmt.Errorf("find program of %s: %w", spec.Name, err)
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }()
	failure, failureWriter, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer func() { _ = failure.Close() }()

	args := append([]string{LaunchCommand, spec.Group, spec.Namespace, program, spec.Name}, spec.Args...)
	cmd := exec.Command(self, args...)
	cmd.Dir = spec.Dir
	cmd.Env = append([]string{searchPath}, spec.Env...)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{failureWriter}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = failureWriter.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", spec.Name, err)
	}
	go func() {
		_ = cmd.Wait() // What it could tell is in the state of the process.
		ended(fmt.Errorf("%s has ended with %s (see %s)", spec.Name, cmd.ProcessState, spec.Log))
	}()

	// The pipe closes when the process becomes the daemon.
	message, err := io.ReadAll(failure)
	if err != nil {
		return fmt.Errorf("start %s: %w", spec.Name, err)
	}
	if len(message) > 0 {
		return fmt.Errorf("start %s: %s", spec.Name, message)
	}
	return nil
}

// Launch is what the process that Start starts does. It returns only when it
// fails.
func Launch(args []string) error {
	if len(args) <= launchArguments {
		return fmt.Errorf("launch: %d arguments are too few", len(args))
	}
	syscall.CloseOnExec(failureFD)
	err := Become(args[0], args[1], args[2], args[launchArguments:])
	fmt.Fprint(os.NewFile(failureFD, "failure"), err)
	return err
}

// Become moves the calling process into a control group and, unless its name
// is empty, a network namespace, and replaces it by a program. It returns only
// when it fails.
func Become(group, namespace, program string, argv []string) error {
	g, err := cgroup.New(group)
	if err != nil {
		return err
	}
	if err := g.Join(); err != nil {
		return err
	}
	// A namespace is entered by one thread; the program inherits it because
	// that same thread executes it.
	runtime.LockOSThread()
	if namespace != "" {
		if err := enter(namespace); err != nil {
			return err
		}
	}
	if err := syscall.Exec(program, argv, os.Environ()); err != nil {
		return fmt.Errorf("execute %s: %w", program, err)
	}
	return nil
}

func enter(namespace string) error {
	handle, err := netns.GetFromName(namespace)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", namespace, err)
	}
	defer func() { _ = handle.Close() }()
	if err := netns.Set(handle); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", namespace, err)
	}
	return nil
}
