// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
)

// hubName is the cluster of the hub in the lab.
const hubName = "hub"

// bootstrapUser is whose join requests the hub approves and accepts by itself.
const bootstrapUser = "system:serviceaccount:" + operatorNamespace + ":" + operatorv1.BootstrapServiceAccount

// hubReadyMax is how long the programs of the hub may take to work.
const hubReadyMax = 5 * time.Minute

// The ports of the programs of the hub on this machine.
const (
	registrationWebhookPort = 29443
	workWebhookPort         = 29444
	firstHealthPort         = 29500
)

// Options of a Fleet.
type Options struct {
	// Root is the directory of the repository.
	Root string
	// Dir is where the lab, the kubeconfigs, and the logs are; Down removes it. Its
	// path may have 36 characters.
	Dir string
	// Members is how many members there are; the first is called "member".
	Members int
	// HubApart gives the hub a lab, and so an etcd, of its own.
	HubApart bool
	// Fsync lets the etcd of the clusters wait for the disk, as in production.
	Fsync bool
	// ReplicaSets gives the rights for ManifestWorkReplicaSets to the controller of
	// works, which is for the caller to start.
	ReplicaSets bool
	// Propagation defines policies and bindings on the hub, and gives the controller
	// of propagation its rights. It is for the caller to start.
	Propagation bool
	// Before is called with the bare clusters, before there is anything of ours.
	Before func(context.Context, *Fleet) error
}

// Fleet is a hub, the programs of the hub, members, and agents.
type Fleet struct {
	options Options

	Hub     *Cluster
	Members []*Cluster
	// HubProcesses are the programs of the hub; Agents are those started so far.
	HubProcesses []*Process
	Agents       []*Process
}

// Up starts the clusters and the programs of the hub. The caller has to call
// Down, also after an error.
func Up(ctx context.Context, options Options) (*Fleet, error) {
	f := &Fleet{options: options}
	if err := os.MkdirAll(f.Path("logs"), 0o700); err != nil {
		return f, fmt.Errorf("making the directory of the logs: %w", err)
	}
	if err := f.Down(ctx, false); err != nil {
		return f, fmt.Errorf("removing what a run left that was killed: %w", err)
	}
	names := []string{hubName}
	for i := range options.Members {
		names = append(names, memberName(i))
	}
	if options.HubApart {
		hub, err := f.clusters(ctx, names[:1])
		if err != nil {
			return f, err
		}
		f.Hub = hub[0]
		if f.Members, err = f.clusters(ctx, names[1:]); err != nil {
			return f, err
		}
	} else {
		clusters, err := f.clusters(ctx, names)
		if err != nil {
			return f, err
		}
		f.Hub, f.Members = clusters[0], clusters[1:]
	}
	if options.Before != nil {
		if err := options.Before(ctx, f); err != nil {
			return f, err
		}
	}
	if err := f.define(ctx); err != nil {
		return f, err
	}
	if err := f.install(ctx); err != nil {
		return f, err
	}
	return f, f.startHub(ctx)
}

// AddMembers starts n members more.
func (f *Fleet) AddMembers(ctx context.Context, n int) error {
	var names []string
	for i := range n {
		names = append(names, memberName(len(f.Members)+i))
	}
	added, err := f.clusters(ctx, names)
	if err != nil {
		return err
	}
	f.Members = append(f.Members, added...)
	return defineSpokes(ctx, added)
}

// clusters starts clusters in the lab.
func (f *Fleet) clusters(ctx context.Context, names []string) ([]*Cluster, error) {
	args := []string{"up", "--nodeless", fmt.Sprintf("--fsync=%t", f.options.Fsync)}
	for _, name := range names {
		args = append(args, "--name", name)
	}
	if _, err := f.labOf(ctx, names[0], args...); err != nil {
		return nil, err
	}
	var clusters []*Cluster
	for _, name := range names {
		c, err := f.connect(ctx, name)
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, c)
	}
	return clusters, nil
}

func memberName(i int) string {
	if i == 0 {
		return "member"
	}
	return fmt.Sprintf("member%d", i+1)
}

// Lab runs the lab's executable on the lab of this fleet, and returns what it
// printed.
func (f *Fleet) Lab(ctx context.Context, args ...string) (string, error) {
	return f.runLab(ctx, f.Path("lab"), args...)
}

// labOf runs it on the lab that the cluster is in.
func (f *Fleet) labOf(ctx context.Context, cluster string, args ...string) (string, error) {
	if cluster == hubName && f.options.HubApart {
		return f.runLab(ctx, f.Path(hubLab), args...)
	}
	return f.Lab(ctx, args...)
}

func (f *Fleet) runLab(ctx context.Context, dir string, args ...string) (string, error) {
	executable := filepath.Join(f.options.Root, "test/lab/bin/lab")
	cmd := exec.CommandContext(ctx, executable, append([]string{"--dir", dir}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("lab %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// Path returns a path in the directory of the fleet.
func (f *Fleet) Path(elements ...string) string {
	return filepath.Join(append([]string{f.options.Dir}, elements...)...)
}

// connect makes clients, and a kubeconfig of its own for a cluster.
func (f *Fleet) connect(ctx context.Context, name string) (*Cluster, error) {
	text, err := f.labOf(ctx, name, "kubeconfig", name)
	if err != nil {
		return nil, err
	}
	return NewCluster(name, f.Path(name+".kubeconfig"), text)
}

// define puts our definitions into all clusters.
func (f *Fleet) define(ctx context.Context) error {
	crds, err := config.HubCRDs()
	if err != nil {
		return fmt.Errorf("reading the definitions of the hub: %w", err)
	}
	if f.options.Propagation {
		more, err := config.PropagationCRDs()
		if err != nil {
			return fmt.Errorf("reading the definitions of propagation: %w", err)
		}
		crds = append(crds, more...)
	}
	if err := f.Hub.Define(ctx, crds); err != nil {
		return err
	}
	return defineSpokes(ctx, f.Members)
}

// defineSpokes puts our definitions into members.
func defineSpokes(ctx context.Context, members []*Cluster) error {
	for _, member := range members {
		crds, err := config.SpokeCRDs()
		if err != nil {
			return fmt.Errorf("reading the definitions of members: %w", err)
		}
		if err := member.Define(ctx, crds); err != nil {
			return err
		}
	}
	return nil
}

// Host returns the address of this machine at which the cluster reaches it:
// the first of the network.
func (f *Fleet) Host(cluster *Cluster) (net.IP, error) {
	server, err := url.Parse(cluster.Config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of %s: %w", cluster.Name, err)
	}
	address := net.ParseIP(server.Hostname()).To4()
	if address == nil {
		return nil, fmt.Errorf("the address %q of %s is no IPv4 address", server.Hostname(), cluster.Name)
	}
	return net.IPv4(address[0], address[1], address[2], 1), nil
}

// startHub starts the programs of the hub and waits until the webhooks answer.
func (f *Fleet) startHub(ctx context.Context) error {
	for i, program := range [][]string{
		{
			"registration-controller", "--disable-leader-election",
			"--feature-gates=ManagedClusterAutoApproval=true", "--cluster-auto-approval-users=" + bootstrapUser,
			"--auto-approved-csr-users=" + bootstrapUser,
		},
		{"registration-webhook", "--port=" + strconv.Itoa(registrationWebhookPort), "--cert-dir=" + f.Path("certs")},
		{"work-webhook", "--port=" + strconv.Itoa(workWebhookPort), "--cert-dir=" + f.Path("certs")},
	} {
		args := append(slices.Clone(program), "--kubeconfig="+f.Path(program[0]+".kubeconfig"), "--metrics-port=0",
			"--health-probe-port="+strconv.Itoa(firstHealthPort+i))
		p, err := f.Start(ctx, program[0], args...)
		if err != nil {
			return err
		}
		f.HubProcesses = append(f.HubProcesses, p)
	}
	return f.hubWorks(ctx)
}

// hubWorks waits until a cluster can be created and deleted again, which shows that
// webhooks and controllers work.
func (f *Fleet) hubWorks(ctx context.Context) error {
	first := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	limit, cancel := context.WithTimeout(ctx, hubReadyMax)
	defer cancel()
	var last error
	if err := Poll(limit, func(ctx context.Context) (bool, error) {
		last = f.Hub.Client.Create(ctx, first.DeepCopy())
		return last == nil, nil
	}); err != nil {
		return fmt.Errorf("the webhooks do not answer (logs in %s): %w", f.Path("logs"), errors.Join(err, last))
	}
	if err := Poll(limit, func(ctx context.Context) (bool, error) {
		last = f.Hub.Client.Delete(ctx, first)
		return apierrors.IsNotFound(last), nil
	}); err != nil {
		return fmt.Errorf("a cluster that was deleted is still there (logs in %s): %w", f.Path("logs"), errors.Join(err, last))
	}
	return nil
}

// Start starts the built executable with the arguments.
func (f *Fleet) Start(ctx context.Context, name string, args ...string) (*Process, error) {
	return Start(ctx, f.Path("logs"), Program{
		Name: name, Executable: filepath.Join(f.options.Root, "bin/capstan-manager"), Args: args,
	})
}

// Down stops and removes everything. The logs stay if something went wrong.
func (f *Fleet) Down(ctx context.Context, good bool) error {
	for _, p := range append(f.Agents, f.HubProcesses...) {
		p.Stop()
	}
	_, err := f.Lab(ctx, "down")
	if f.options.HubApart {
		_, hubErr := f.runLab(ctx, f.Path(hubLab), "down")
		err = errors.Join(err, hubErr)
	}
	if good {
		err = errors.Join(err, os.RemoveAll(f.options.Dir))
	}
	return err
}
