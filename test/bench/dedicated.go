// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/test/internal/fleet"
)

// The clusters of the lab, and the hub on the first.
const (
	hostCluster  = "bench-host"
	bareCluster  = "bench-bare"
	dedicatedHub = "hub"
	// settles is how long the hub is left alone before it counts as idle.
	settles = time.Minute
)

// footprint is what the processes of a cluster use, by program.
type footprint struct {
	Programs map[string]fleet.Usage `json:"programs"`
	// WritesPerMinute are those that the API server answered, Leases among them.
	WritesPerMinute float64 `json:"writesPerMinute"`
}

// dedicatedCost is that of an idle dedicated hub beside its bare parts.
type dedicatedCost struct {
	Dedicated footprint `json:"dedicated"`
	Bare      footprint `json:"bare"`
}

// measureDedicated makes a dedicated hub in pods, and beside it an etcd, an API
// server and a controller manager with all of its controllers, and watches both
// while nothing happens.
func measureDedicated(ctx context.Context, o options) (_ fmt.Stringer, err error) {
	image := os.Getenv("IMAGE_NAME")
	if image == "" {
		return nil, errors.New("IMAGE_NAME is not set: run `make bench-dedicated`")
	}
	lab := func(args ...string) (string, error) {
		return output(ctx, "test/lab/bin/lab", append([]string{"--dir", o.dir}, args...)...)
	}
	defer func() {
		_, downErr := output(context.WithoutCancel(ctx), "test/lab/bin/lab", "--dir", o.dir, "down")
		err = errors.Join(err, downErr)
	}()
	for _, args := range [][]string{
		{"up", "--install-packages", "--fsync=" + strconv.FormatBool(o.fsync), "--name", hostCluster},
		{"up", "--nodeless", "--fsync=" + strconv.FormatBool(o.fsync), "--name", bareCluster},
		{"load-image", "bin/capstan-image.tar", "--cluster", hostCluster},
		{"load-image", "test/lab/bin/kubernetes.tar", "--cluster", hostCluster},
	} {
		if _, err := lab(args...); err != nil {
			return nil, err
		}
	}
	kubeconfig := filepath.Join(o.dir, "bench.kubeconfig")
	connect := func(name string) (*fleet.Cluster, error) {
		text, err := lab("kubeconfig", name)
		if err != nil {
			return nil, err
		}
		return fleet.NewCluster(name, filepath.Join(o.dir, name+".kubeconfig"), text)
	}
	host, err := connect(hostCluster)
	if err != nil {
		return nil, err
	}
	bare, err := connect(bareCluster)
	if err != nil {
		return nil, err
	}
	if _, err := output(ctx, "bin/capstan", "init", "--dedicated", "--name", dedicatedHub, "--image", image, "--kubeconfig", host.Kubeconfig); err != nil {
		return nil, err
	}
	text, err := output(ctx, "test/lab/bin/kubectl", "--kubeconfig", host.Kubeconfig, "--context", dedicatedHub, "config", "view", "--minify", "--raw")
	if err != nil {
		return nil, err
	}
	hub, err := fleet.NewCluster(dedicatedHub, kubeconfig, text)
	if err != nil {
		return nil, err
	}
	pods, err := host.Kubernetes.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if err := fleet.Pause(ctx, settles); err != nil {
		return nil, err
	}
	return watchBoth(ctx, o, sides{hub: hub, bare: bare, pods: pods.Items})
}

// sides are the dedicated hub, with the pods of its host, and the bare parts.
type sides struct {
	hub, bare *fleet.Cluster
	pods      []corev1.Pod
}

// watchBoth returns what both use while nothing happens.
func watchBoth(ctx context.Context, o options, both sides) (*dedicatedCost, error) {
	d, cost := o.idle, &dedicatedCost{}
	sides := []struct {
		cluster *fleet.Cluster
		name    func(cgroup, command string) string
		of      *footprint
	}{
		{both.hub, func(cgroup, _ string) string { return programOfPod(cgroup, both.pods) }, &cost.Dedicated},
		{both.bare, func(cgroup, command string) string { return programOfBare(cgroup, command, o.dir) }, &cost.Bare},
	}
	read := func(sign float64) error {
		for _, side := range sides {
			requests, err := fleet.CountRequests(ctx, side.cluster.Kubernetes)
			if err != nil {
				return err
			}
			used, err := usage(side.name)
			if err != nil {
				return err
			}
			side.of.WritesPerMinute += sign * requests.Writes / d.Minutes()
			for program, now := range used {
				now.CPUSeconds = side.of.Programs[program].CPUSeconds + sign*now.CPUSeconds
				used[program] = now
			}
			side.of.Programs = used
		}
		return nil
	}
	if err := read(-1); err != nil {
		return nil, err
	}
	if err := fleet.Pause(ctx, d); err != nil {
		return nil, err
	}
	if err := read(1); err != nil {
		return nil, err
	}
	for _, side := range sides {
		for program, used := range side.of.Programs {
			used.CPUSeconds /= d.Seconds() // of each second
			side.of.Programs[program] = used
		}
	}
	return cost, nil
}

// programOfPod returns the Deployment or StatefulSet that a process of a pod is of,
// if it is one of ours.
func programOfPod(cgroup string, pods []corev1.Pod) string {
	for i := range pods {
		pod := &pods[i]
		if pod.Namespace == "kube-system" || !strings.Contains(cgroup, "/pod"+string(pod.UID)+"/") {
			continue
		}
		name := pod.Name
		if hash := pod.Labels["pod-template-hash"]; hash != "" {
			name, _, _ = strings.Cut(name, "-"+hash)
		}
		return name
	}
	return ""
}

// programOfBare returns which of the three programs of a hub a process is, if it
// belongs to the bare cluster. Its etcd is that of all clusters without a node in
// the lab, of which there is no other.
func programOfBare(cgroup, command, dir string) string {
	name, _, _ := strings.Cut(command, "\x00")
	name = filepath.Base(name)
	switch name {
	case "kube-apiserver", "kube-controller-manager":
		if strings.Contains(cgroup, "/"+bareCluster+"/daemons") {
			return name
		}
	case "etcd":
		if strings.Contains(command, filepath.Join(dir, "etcd")+"/") {
			return name
		}
	}
	return ""
}

// usage adds up what the processes of this machine use for which name returns one.
func usage(name func(cgroup, command string) string) (map[string]fleet.Usage, error) {
	found, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	used := map[string]fleet.Usage{}
	for _, entry := range found {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cgroup, cgroupErr := os.ReadFile(filepath.Join("/proc", entry.Name(), "cgroup"))
		command, commandErr := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if cgroupErr != nil || commandErr != nil { // it has ended
			continue
		}
		program := name(string(cgroup), string(command))
		if program == "" || strings.HasPrefix(string(command), "/pause") {
			continue
		}
		one, err := fleet.UsageOf(pid)
		if err != nil {
			return nil, err
		}
		sum := used[program]
		sum.CPUSeconds, sum.RSSMiB, sum.AnonMiB = sum.CPUSeconds+one.CPUSeconds, sum.RSSMiB+one.RSSMiB, sum.AnonMiB+one.AnonMiB
		used[program] = sum
	}
	return used, nil
}

// String returns a table of each, and the writes.
func (c *dedicatedCost) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| \t| program\t| RSS MiB\t| anon MiB\t| millicores\t| writes/min\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, side := range []struct {
		name string
		of   footprint
	}{{"dedicated hub", c.Dedicated}, {"bare parts", c.Bare}} {
		var sum fleet.Usage
		for _, program := range slices.Sorted(maps.Keys(side.of.Programs)) {
			used := side.of.Programs[program]
			fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t| %s\t| \t|\n", side.name, program, number(used.RSSMiB), number(used.AnonMiB), number(1000*used.CPUSeconds))
			sum.RSSMiB, sum.AnonMiB, sum.CPUSeconds = sum.RSSMiB+used.RSSMiB, sum.AnonMiB+used.AnonMiB, sum.CPUSeconds+used.CPUSeconds
		}
		fmt.Fprintf(w, "| %s\t| all %d\t| %s\t| %s\t| %s\t| %s\t|\n", side.name, len(side.of.Programs),
			number(sum.RSSMiB), number(sum.AnonMiB), number(1000*sum.CPUSeconds), number(side.of.WritesPerMinute))
	}
	_ = w.Flush() // a strings.Builder does not fail
	return text.String()
}

// output runs a command and returns what it printed; its errors go to those of this one.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}
