// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring_test

import (
	"context"
	"errors"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/install/monitoring"
	"github.com/capstan-io/capstan/internal/operator/podmonitor"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// asked is what asks for PodMonitors in the tests.
type asked struct {
	t      *testing.T
	on     *install.Target
	object *operatorv1.ClusterManager
	// others ask for the same PodMonitor; failure is that of applying it.
	others  bool
	failure error
}

func (a *asked) request() monitoring.PodMonitorRequest {
	monitors := []render.Object{podmonitor.NewPodMonitor(render.ResourceMeta{Name: "capstan-hub", Namespace: "default"},
		podmonitor.ComponentPods{Component: "registration-controller", App: "clustermanager-registration-controller", Port: 8080},
		podmonitor.ComponentPods{Component: "apiserver", App: "clustermanager-apiserver", Port: 8443})}
	return monitoring.PodMonitorRequest{
		Object: a.object, Conditions: &a.object.Status.Conditions, Monitors: monitors,
		Apply: func(ctx context.Context, to *install.Target, objects ...render.Object) error {
			if a.failure != nil {
				return a.failure
			}
			_, err := to.Named.Apply(ctx, objects...)
			return err
		},
		Others: func(context.Context) ([]render.Object, error) {
			if a.others {
				return monitors, nil
			}
			return nil, nil
		},
	}
}

// says runs the request and compares the reason of condition Monitored, "" for none. It
// returns when to look again.
func (a *asked) says(annotation, reason string) time.Duration {
	a.t.Helper()
	a.object.Annotations = map[string]string{}
	if annotation != "" {
		a.object.Annotations[fleetv1alpha1.AnnotationMonitoring] = annotation
	}
	again := a.request().ReconcileMonitors(a.t.Context(), a.on)
	got := ""
	if condition := meta.FindStatusCondition(a.object.Status.Conditions, operatorv1.ConditionMonitored); condition != nil {
		got = condition.Reason
	}
	if got != reason {
		a.t.Errorf("with annotation %q: got reason %q, want %q", annotation, got, reason)
	}
	return again
}

// expect sees whether the PodMonitor is there.
func (a *asked) expect(want bool) {
	a.t.Helper()
	_, err := a.monitor()
	if client.IgnoreNotFound(err) != nil {
		a.t.Fatal(err)
	}
	if got := err == nil; got != want {
		a.t.Errorf("the PodMonitor is there: %t, want %t", got, want)
	}
}

func (a *asked) monitor() (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("monitoring.coreos.com/v1")
	u.SetKind("PodMonitor")
	return u, a.on.Live.Get(a.t.Context(), client.ObjectKey{Namespace: "default", Name: "capstan-hub"}, u)
}

func target(t *testing.T, config *rest.Config) *install.Target {
	t.Helper()
	c := cluster.NewClient(t, config)
	return install.NewTarget(c, install.TargetReaders{Live: c, Secrets: c}, "cluster-manager")
}

func TestPodMonitorsAreMadeForThoseWhoAsk(t *testing.T) {
	_, config := servers.Start(t)
	a := &asked{t: t, on: target(t, config), object: &operatorv1.ClusterManager{}}
	a.says("", "")
	a.says("ServiceMonitor", operatorv1.ReasonMonitoringUnknown)
	a.says(fleetv1alpha1.MonitoringPodMonitor, operatorv1.ReasonPodMonitorUndefined)
	a.says("", "") // nothing was made, nothing is to be removed

	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{"testdata/podmonitors.yaml"}, MaxTime: time.Minute}); err != nil {
		t.Fatal(err)
	}
	// Only what the status tells of is found again to be removed.
	if again := a.says(fleetv1alpha1.MonitoringPodMonitor, operatorv1.ReasonPodMonitorsPending); again == 0 {
		t.Error("what is pending is not looked at again")
	}
	a.expect(false)
	a.says(fleetv1alpha1.MonitoringPodMonitor, operatorv1.ReasonPodMonitorsApplied)
	made, err := a.monitor()
	expect.NoError(t, err)
	a.says(fleetv1alpha1.MonitoringPodMonitor, operatorv1.ReasonPodMonitorsApplied)
	if again, err := a.monitor(); err != nil || again.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("a PodMonitor that is as wanted was written, %v", err)
	}
	a.says("ServiceMonitor", operatorv1.ReasonMonitoringUnknown)
	a.expect(false)
	a.says(fleetv1alpha1.MonitoringPodMonitor, operatorv1.ReasonPodMonitorsApplied)

	a.others = true
	a.says("", "")
	a.expect(true)
	a.others = false
	a.says("", "")
	a.expect(true) // it was not this object's any more

	// A failure is told, and is no error of the walk.
	a.failure = errors.New("the API server is in a bad mood")
	a.says(fleetv1alpha1.MonitoringPodMonitor, operatorv1.ReasonPodMonitorsPending)
	if again := a.says(fleetv1alpha1.MonitoringPodMonitor, operatorv1.ReasonPodMonitorsFailed); again == 0 {
		t.Error("what failed is not looked at again")
	}
	a.failure = nil
	a.says(fleetv1alpha1.MonitoringPodMonitor, operatorv1.ReasonPodMonitorsApplied)

	// Who may write nothing but what the operator's role names sees no difference.
	limited := allow(t, config, a.on.Client, "limited", rbacv1.PolicyRule{
		APIGroups: []string{"monitoring.coreos.com"}, Resources: []string{"podmonitors"}, ResourceNames: []string{"capstan-hub"},
		Verbs: []string{"create", "get", "patch", "delete"},
	}, rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get"}})
	b := &asked{t: t, on: target(t, limited), object: a.object}
	b.says("", "")
	a.expect(false)
	b.says(fleetv1alpha1.MonitoringPodMonitor, operatorv1.ReasonPodMonitorsPending)
	b.says(fleetv1alpha1.MonitoringPodMonitor, operatorv1.ReasonPodMonitorsApplied)

	// Who may not says so, and one of somebody else stays.
	c := &asked{t: t, on: target(t, allow(t, config, a.on.Client, "nobody")), object: &operatorv1.ClusterManager{}}
	c.says(fleetv1alpha1.MonitoringPodMonitor, operatorv1.ReasonPodMonitorsForbidden)
	foreign, err := a.monitor()
	expect.NoError(t, err)
	foreign.SetLabels(nil)
	expect.NoError(t, a.on.Client.Update(t.Context(), foreign))
	a.says("", "")
	a.expect(true)
}

// allow returns the credentials of a user with the rules.
func allow(t *testing.T, config *rest.Config, admin client.Client, user string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	if len(rules) > 0 {
		cluster.GrantUser(t, admin, config, user, rules...)
	}
	for _, rule := range rules {
		env.WaitAllowed(t.Context(), t, config, env.UserReview(user), "default", rule, true)
	}
	return cluster.AsUser(config, user, "system:authenticated")
}
