// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/test/internal/fleet"
)

// PodsAgain is the time after which pods are looked at though nothing is known
// to have changed: a process may have ended.
const PodsAgain = time.Second

// pods does for the Deployments of a cluster what its controllers and kubelets
// would do: it runs their pods, one each, as processes of this machine.
type pods struct {
	t       testing.TB
	cluster *Cluster
	// programs is where the executable is, under all its names.
	programs string
	// more returns further arguments of a Deployment's program: what is different
	// outside of a cluster.
	more func(deployment string) []string

	cache cache.Cache
	kick  chan struct{}

	mu      sync.Mutex
	running map[client.ObjectKey]*pod
	held    map[client.ObjectKey]bool
	started int
}

// pod is a process with its files.
type pod struct {
	process  *fleet.Process
	template []byte
	mounts   []mount
}

// StartPods runs the pods of the cluster until the test ends.
func StartPods(t testing.TB, c *Cluster, programs string, more func(string) []string) *pods {
	t.Helper()
	p := &pods{
		t: t, cluster: c, programs: programs, more: more, kick: make(chan struct{}, 1),
		running: map[client.ObjectKey]*pod{}, held: map[client.ObjectKey]bool{},
	}
	var err error
	if p.cache, err = cache.New(c.Config, cache.Options{Scheme: c.Client.Scheme()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.cache.Start(ctx) })
	for _, kind := range []client.Object{&appsv1.Deployment{}, &corev1.Secret{}, &corev1.ServiceAccount{}} {
		informer, err := p.cache.GetInformer(ctx, kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { p.look() }, UpdateFunc: func(any, any) { p.look() }, DeleteFunc: func(any) { p.look() },
		}); err != nil {
			t.Fatal(err)
		}
	}
	running.Go(func() {
		if p.cache.WaitForCacheSync(ctx) {
			p.run(ctx)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if t.Failed() {
			p.tell()
		}
	})
	return p
}

// logsEnd is how much of each log is told if the test failed, in bytes.
const logsEnd = 3000

// tell tells the ends of the logs.
func (p *pods) tell() {
	logs, err := filepath.Glob(p.cluster.Path("logs", "*.log"))
	if err != nil {
		p.t.Error(err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		p.t.Logf("the end of %s (%v):\n%s", filepath.Base(log), err, text[max(0, len(text)-logsEnd):])
	}
}

func (p *pods) look() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

func (p *pods) run(ctx context.Context) {
	for {
		if err := p.pass(ctx); err != nil && ctx.Err() == nil {
			p.t.Logf("pods of %s: %v", p.cluster.Name, err)
		}
		select {
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			for key := range p.running {
				p.stop(key)
			}
			return
		case <-p.kick:
		case <-time.After(PodsAgain):
		}
	}
}

// HoldPods kills the pods of Deployments and keeps them from starting.
func (p *pods) HoldPods(keys ...client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		p.held[key] = true
		if running, ok := p.running[key]; ok {
			running.process.Kill()
		}
	}
}

// ReleasePods lets them start again.
func (p *pods) ReleasePods(keys ...client.ObjectKey) {
	p.mu.Lock()
	for _, key := range keys {
		delete(p.held, key)
	}
	p.mu.Unlock()
	p.look()
}

// pass makes the processes those that the Deployments want.
func (p *pods) pass(ctx context.Context) error {
	deployments := &appsv1.DeploymentList{}
	if err := p.cache.List(ctx, deployments); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := map[client.ObjectKey]*appsv1.Deployment{}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		// Deployments of works have no programs of ours.
		if key := client.ObjectKeyFromObject(d); p.ours(d) && *d.Spec.Replicas > 0 && d.DeletionTimestamp.IsZero() && !p.held[key] {
			wanted[key] = d
		}
	}
	var errs []error
	for key, running := range p.running {
		if d, ok := wanted[key]; !ok || running.ended() || !bytes.Equal(running.template, templateOf(d)) {
			p.stop(key)
		}
	}
	for key, d := range wanted {
		if p.running[key] == nil {
			made, err := p.start(ctx, d)
			if err != nil || made == nil {
				errs = append(errs, err)
				continue
			}
			p.running[key] = made
		}
		errs = append(errs, p.project(ctx, p.running[key]), p.report(ctx, d))
	}
	return errors.Join(errs...)
}

// ours reports whether a Deployment runs a program of Capstan.
func (p *pods) ours(d *appsv1.Deployment) bool {
	containers := d.Spec.Template.Spec.Containers
	if len(containers) != 1 || len(containers[0].Args) == 0 {
		return false
	}
	_, err := os.Lstat(p.program(containers[0].Args[0]))
	return err == nil
}

func (p *pods) program(command string) string {
	return filepath.Join(p.programs, filepath.Base(command))
}

func templateOf(d *appsv1.Deployment) []byte {
	text, err := json.Marshal(d.Spec.Template)
	if err != nil {
		panic(err) // it came as JSON
	}
	return text
}

func (p *pod) ended() bool {
	select {
	case <-p.process.Done():
		return true
	default:
		return false
	}
}

func (p *pods) stop(key client.ObjectKey) {
	p.running[key].process.Stop()
	delete(p.running, key)
}

// start starts the pod of a Deployment; it returns nil if something is missing
// that a kubelet would wait for.
func (p *pods) start(ctx context.Context, d *appsv1.Deployment) (*pod, error) {
	name := fmt.Sprintf("%s-%d", d.Name, p.started)
	dir := p.cluster.Path("pods", name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	container := d.Spec.Template.Spec.Containers[0]
	made := &pod{template: templateOf(d), mounts: mountsOf(d, dir)}
	if err := p.project(ctx, made); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(made.mounts, func(m mount) bool { return m.lacks() }) {
		return nil, nil
	}
	token, err := p.RequestPodToken(ctx, d)
	if err != nil || token == nil {
		return nil, err
	}
	home := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(home, token, 0o600); err != nil {
		return nil, err
	}
	args := slices.Concat(container.Args[1:], []string{"--kubeconfig=" + home}, unserved(container.Args), p.more(d.Name))
	paths := pathsOf(made.mounts)
	for i := range args {
		args[i] = paths.Replace(args[i])
	}
	p.started++
	made.process, err = fleet.Start(ctx, p.cluster.Path("logs"), fleet.Program{
		Name: d.Name, Executable: p.program(container.Args[0]), Args: args, Env: environmentOf(d, name),
	})
	return made, err
}

// unserved turns off what pods serve on ports of their own, which processes
// share.
func unserved(command []string) []string {
	if filepath.Base(command[0]) == AggregatedProgram {
		return nil // it serves all of it on one port
	}
	flags := []string{"--metrics-port=0", "--health-probe-port=0"}
	if len(command) > 1 && strings.HasSuffix(command[0], "registration-operator") && command[1] != "agent" {
		flags = append(flags, "--secure-health-probe-port=0")
	}
	return flags
}

// environmentOf returns the variables of the container in a pod of the name.
func environmentOf(d *appsv1.Deployment, pod string) []string {
	fields := map[string]string{"metadata.name": pod, "metadata.namespace": d.Namespace, "metadata.uid": pod}
	var variables []string
	for _, v := range d.Spec.Template.Spec.Containers[0].Env {
		value := v.Value
		if v.ValueFrom != nil {
			value = fields[v.ValueFrom.FieldRef.FieldPath]
		}
		variables = append(variables, v.Name+"="+value)
	}
	return variables
}

// RequestPodToken returns a kubeconfig with a token of the pod's ServiceAccount.
func (p *pods) RequestPodToken(ctx context.Context, d *appsv1.Deployment) ([]byte, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Spec.Template.Spec.ServiceAccountName}}
	request := &authenticationv1.TokenRequest{}
	err := p.cluster.Client.SubResource("token").Create(ctx, account, request)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p.cluster.RenderKubeconfig(request.Status.Token)
}

// project brings the files of secrets up to date.
func (p *pods) project(ctx context.Context, of *pod) error {
	paths := pathsOf(of.mounts)
	for i := range of.mounts {
		m := &of.mounts[i]
		data := map[string][]byte{}
		if m.secret.Name != "" {
			secret := &corev1.Secret{}
			err := p.cache.Get(ctx, m.secret, secret)
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			m.found = err == nil
			for key, value := range secret.Data {
				data[key] = []byte(paths.Replace(string(value)))
			}
		}
		if m.data != nil && maps.EqualFunc(m.data, data, bytes.Equal) {
			continue
		}
		if err := layOut(m.dir, data); err != nil {
			return err
		}
		m.data = data
	}
	return nil
}

// report tells in the status that the pod is available.
func (p *pods) report(ctx context.Context, d *appsv1.Deployment) error {
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
	}
	if d.Status.ObservedGeneration == status.ObservedGeneration && d.Status.AvailableReplicas == status.AvailableReplicas {
		return nil
	}
	d = d.DeepCopy()
	d.Status = status
	err := p.cluster.Client.Status().Update(ctx, d)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // its event brings us back
	}
	return err
}

// pathsOf replaces the paths of volumes in a container by those on this machine.
func pathsOf(mounts []mount) *strings.Replacer {
	var pairs []string
	for _, m := range mounts {
		pairs = append(pairs, m.path, m.dir)
	}
	return strings.NewReplacer(pairs...)
}
