// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures how fast clusters join, what they cost when nothing
// happens, and how fast works get to them.
//
// A hub and a member, both without nodes, come from the lab; the hub's programs
// and the agents run as plain processes beside them, as many agents as members
// are asked for, each with an agent namespace of its own in the one member. The
// command talks only through the API. It needs root, and what `make build
// lab-build` builds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-io/capstan/test/internal/fleet"
)

const usageText = `usage: go run ./test/bench join|idle|accept|push|work|placement|propagate|dedicated [flags]

  join       seconds from the start of the agents until all clusters are Available
  idle       requests, CPU and memory of joined clusters while nothing happens
  accept     seconds until the hub has accepted many clusters at once
  push       what one push agent costs that works for many Push clusters, and how fast it starts
  work       how fast works are delivered, changed, mended and deleted
  placement  how fast placements choose clusters, and what that costs
  propagate  how fast objects of the hub get to clusters by policies, and what that costs
  dedicated  what an idle dedicated hub costs, beside an empty etcd, API server and controller manager`

type options struct {
	members  []int
	clusters int
	idle     time.Duration
	// runs, limit and scenarios are those of works, placements and propagation.
	runs      int
	limit     time.Duration
	scenarios string
	flood     int
	// deployments are how many are sent to ten clusters, one number after the other;
	// bindings how many are decided.
	deployments []int
	bindings    int
	dir         string
	// fsync lets etcd wait for the disk.
	fsync bool
	json  string
	// replicaSets turns ManifestWorkReplicaSets on, propagation policies and bindings.
	replicaSets, propagation bool
	// profiles is where CPU profiles of the API server and lists of requests go.
	profiles string
}

// How long the API server is profiled while clusters join or are accepted.
const (
	joinProfiled   = 8 * time.Second
	acceptProfiled = 30 * time.Second
)

func main() {
	log.SetLogger(logr.Discard()) // figures are the only output
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("no benchmark given\n" + usageText)
	}
	var o options
	var members, deployments string
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&members, "members", "1,10,50", "numbers of members, separated by commas")
	flags.IntVar(&o.clusters, "clusters", 1000, "clusters to accept at once")
	flags.DurationVar(&o.idle, "idle", 3*time.Minute, "how long to watch an idle fleet")
	flags.IntVar(&o.runs, "runs", 5, "how often each scenario of works, placements or propagation is run")
	flags.DurationVar(&o.limit, "limit", 7*time.Minute,
		"time for all scenarios; none is run again when its share, and what those before it left, is over")
	flags.StringVar(&o.scenarios, "scenarios", "", "scenarios of works, placements or propagation, separated by commas; all if empty")
	flags.IntVar(&o.flood, "flood", 10000, "how many works the scenario flood creates")
	flags.StringVar(&deployments, "deployments", "100,500", "numbers of Deployments to propagate to ten clusters, separated by commas")
	flags.IntVar(&o.bindings, "bindings", 5000, "bindings to decide, and a fifth of that with replicas to divide")
	flags.StringVar(&o.dir, "dir", "/var/lib/capstan-bench", "directory of the lab and of the logs; removed before and after")
	flags.BoolVar(&o.fsync, "fsync", true, "let etcd wait for the disk, as it does in production")
	flags.StringVar(&o.json, "json", "", "file to write the figures to as JSON")
	flags.StringVar(&o.profiles, "profiles", "", "directory for CPU profiles of the hub's API server and for lists of its requests; it must exist")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	var err error
	if o.members, err = numbers("members", members); err != nil {
		return err
	}
	if o.deployments, err = numbers("deployments", deployments); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("the lab needs root: run it with sudo")
	}
	measure, ok := map[string]func(context.Context, options) (fmt.Stringer, error){
		"join": measureJoin, "idle": measureIdle, "accept": measureAccept, "push": measurePush, "work": measureWork, "placement": measurePlacement,
		"propagate": measurePropagate, "dedicated": measureDedicated,
	}[args[0]]
	if !ok {
		return fmt.Errorf("unknown benchmark %q\n%s", args[0], usageText)
	}
	result, err := measure(ctx, o)
	if err != nil {
		return err
	}
	fmt.Print(result)
	if o.json == "" {
		return nil
	}
	encoded, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, encoded, 0o644)
}

// numbers reads the value of a flag.
func numbers(flag, text string) ([]int, error) {
	var all []int
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--%s %q: want positive numbers, separated by commas", flag, text)
		}
		all = append(all, n)
	}
	return all, nil
}

// measureJoin starts 1, 10, 50 … agents at once on a fresh hub each.
func measureJoin(ctx context.Context, o options) (fmt.Stringer, error) {
	result := table{Columns: []string{"members", "s to Available", "hub writes/cluster", "CPU s/agent", "RSS MiB/agent", "anon MiB/agent", "hub RSS MiB", "hub CPU s", "API server CPU s"}}
	for _, n := range o.members {
		err := withFleet(ctx, o, false, func(ctx context.Context, f *bench) error {
			before, err := fleet.CountRequests(ctx, f.fleet.Hub.Kubernetes)
			if err != nil {
				return err
			}
			hubBefore, err := fleet.Total(f.fleet.HubProcesses)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("join-%d", n)
			wait := profile(ctx, f.fleet.Hub.Kubernetes, o.profiles, name, joinProfiled)
			took, err := f.join(ctx, n)
			if err != nil {
				return err
			}
			after, err := fleet.CountRequests(ctx, f.fleet.Hub.Kubernetes)
			if err != nil {
				return err
			}
			agents, err := fleet.Total(f.fleet.Agents)
			if err != nil {
				return err
			}
			hub, err := fleet.Total(f.fleet.HubProcesses)
			if err != nil {
				return err
			}
			each, asked := float64(n), after.Minus(before)
			result.add(each, took.Seconds(), asked.Writes/each, agents.CPUSeconds/each,
				agents.RSSMiB/each, agents.AnonMiB/each, hub.RSSMiB, hub.CPUSeconds-hubBefore.CPUSeconds, asked.CPUSeconds)
			return errors.Join(wait(), writeKinds(asked, n, o.profiles, name))
		})
		if err != nil {
			return nil, fmt.Errorf("joining %d clusters: %w", n, err)
		}
	}
	return result, nil
}

// measureIdle watches joined clusters, and the same API server before there is
// anything of ours to compare with.
func measureIdle(ctx context.Context, o options) (fmt.Stringer, error) {
	result := table{Columns: []string{"members", "hub requests/cluster/min", "hub writes/cluster/min", "agent millicores", "RSS MiB/agent", "anon MiB/agent", "hub millicores", "hub RSS MiB", "empty hub requests/min", "empty hub writes/min"}}
	for _, n := range o.members {
		err := withFleet(ctx, o, true, func(ctx context.Context, f *bench) error {
			if _, err := f.join(ctx, n); err != nil {
				return err
			}
			if err := fleet.Pause(ctx, settle); err != nil {
				return err
			}
			idle, err := f.watchIdle(ctx, o.idle)
			if err != nil {
				return err
			}
			minutes, each := o.idle.Minutes(), float64(n)
			own := idle.requests.Minus(scaled(f.empty, minutes))
			result.add(each, own.All/each/minutes, own.Writes/each/minutes,
				1000*idle.agents.CPUSeconds/o.idle.Seconds()/each, idle.agents.RSSMiB/each, idle.agents.AnonMiB/each,
				1000*idle.hub.CPUSeconds/o.idle.Seconds(), idle.hub.RSSMiB, f.empty.All, f.empty.Writes)
			return writeKinds(idle.requests, n, o.profiles, fmt.Sprintf("idle-%d", n))
		})
		if err != nil {
			return nil, fmt.Errorf("watching %d idle clusters: %w", n, err)
		}
	}
	return result, nil
}

// measureAccept has the hub accept many clusters, and compares it with as many
// plain writes by parallel clients on the same API server.
func measureAccept(ctx context.Context, o options) (fmt.Stringer, error) {
	result := table{Columns: []string{"clusters", "s to accepted", "clusters/s", "writes/cluster", "API server CPU s", "probe s for as many writes", "probe CPU s", "ratio"}}
	err := withFleet(ctx, o, false, func(ctx context.Context, f *bench) error {
		before, err := fleet.CountRequests(ctx, f.fleet.Hub.Kubernetes)
		if err != nil {
			return err
		}
		wait := profile(ctx, f.fleet.Hub.Kubernetes, o.profiles, "accept", acceptProfiled)
		took, err := f.accept(ctx, o.clusters)
		if err != nil {
			return err
		}
		after, err := fleet.CountRequests(ctx, f.fleet.Hub.Kubernetes)
		if err != nil {
			return err
		}
		asked := after.Minus(before)
		probe, err := f.probe(ctx, int(asked.Writes))
		if err != nil {
			return err
		}
		probed, err := fleet.CountRequests(ctx, f.fleet.Hub.Kubernetes)
		if err != nil {
			return err
		}
		n := float64(o.clusters)
		result.add(n, took.Seconds(), n/took.Seconds(), asked.Writes/n, asked.CPUSeconds,
			probe.Seconds(), probed.Minus(after).CPUSeconds, took.Seconds()/probe.Seconds())
		return errors.Join(wait(), writeKinds(asked, o.clusters, o.profiles, "accept"))
	})
	return result, err
}

// bench is a fleet, and what its hub was asked for before there was anything
// of ours.
type bench struct {
	fleet *fleet.Fleet
	// empty is per minute. It is counted if someone wants to compare with it.
	empty fleet.Requests
}

// emptyMinutes is how long the hub is watched before anything of ours is there.
const emptyMinutes = 1

// withFleet starts a fresh hub and member, calls do, and removes everything.
// With countEmpty it looks first at what the hub is asked for without Capstan.
func withFleet(ctx context.Context, o options, countEmpty bool, do func(context.Context, *bench) error) (err error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bench{}
	options := fleet.Options{Root: root, Dir: o.dir, Members: 1, Fsync: o.fsync, ReplicaSets: o.replicaSets, Propagation: o.propagation}
	if countEmpty {
		options.Before = b.watchEmpty
	}
	b.fleet, err = fleet.Up(ctx, options)
	defer func() { err = errors.Join(err, b.fleet.Down(context.WithoutCancel(ctx), err == nil)) }()
	if err != nil {
		return err
	}
	return do(ctx, b)
}

// watchEmpty counts what the hub is asked for before there is anything of ours.
func (f *bench) watchEmpty(ctx context.Context, bare *fleet.Fleet) error {
	before, err := fleet.CountRequests(ctx, bare.Hub.Kubernetes)
	if err != nil {
		return err
	}
	if err := fleet.Pause(ctx, emptyMinutes*time.Minute); err != nil {
		return err
	}
	after, err := fleet.CountRequests(ctx, bare.Hub.Kubernetes)
	if err != nil {
		return err
	}
	f.empty = scaled(after.Minus(before), 1.0/emptyMinutes)
	return nil
}
