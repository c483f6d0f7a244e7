// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/cli/progress"
	"github.com/capstan-io/capstan/internal/server/version"
)

// clusterSite is a cluster that something is installed on or removed from.
type clusterSite struct {
	config *rest.Config
	// read sees what is there, write changes it, or not in a dry run.
	read    client.WithWatch
	write   client.Client
	mode    dryrun.Mode
	timeout time.Duration
	steps   *progress.StepPrinter
	out     io.Writer
}

// openSite returns the cluster of the session. It does not send a request yet.
func openSite(session *hub.Session, mode dryrun.Mode, timeout time.Duration) (*clusterSite, error) {
	config, err := session.LoadRESTConfig()
	if err != nil {
		return nil, err
	}
	return newSite(config, session, mode, timeout)
}

func newSite(config *rest.Config, session *hub.Session, mode dryrun.Mode, timeout time.Duration) (*clusterSite, error) {
	c, err := install.NewClient(config)
	if err != nil {
		return nil, err
	}
	return &clusterSite{
		config: config, read: c, write: mode.WrapClient(c), mode: mode, timeout: timeout,
		steps: progress.NewStepPrinter(session.ErrOut), out: session.Out,
	}, nil
}

func (s *clusterSite) newWaiter() install.Waiter {
	return install.Waiter{Client: s.read, Timeout: s.timeout, Note: func(text string) { s.steps.ShowWaiting("%s", text) }}
}

// preflight finds out, before anything is changed, whether the objects can be
// installed.
func (s *clusterSite) preflight(ctx context.Context, objects []*unstructured.Unstructured) error {
	found, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		return fmt.Errorf("prepare the connection to %s: %w", s.config.Host, err)
	}
	server, err := found.ServerVersion()
	if err != nil {
		return fmt.Errorf("ask for the version of Kubernetes: %w", err)
	}
	if err := checkKubernetes(server.GitVersion); err != nil {
		return err
	}
	missing, err := s.missingRights(ctx, objects)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return exit.Next(fmt.Errorf("you may not %s", strings.Join(missing, ", nor ")),
			"Use a kubeconfig of an administrator of the cluster. \"kubectl auth whoami\" shows who you are there.")
	}
	// Whoever writes a role has to hold what it gives, which only trying tells.
	for _, object := range objects {
		if object.GetKind() != "ClusterRole" {
			continue
		}
		if err := install.ApplyObjects(ctx, client.NewDryRunClient(s.read), object); err != nil {
			return err
		}
	}
	return nil
}

func checkKubernetes(running string) error {
	is, err := utilversion.ParseGeneric(running)
	if err != nil {
		return fmt.Errorf("the cluster says that its Kubernetes is of version %q: %w", running, err)
	}
	if is.LessThan(utilversion.MustParseGeneric(version.KubernetesMinimum)) {
		return exit.Next(fmt.Errorf("the cluster has Kubernetes %s, and Capstan needs %s", running, version.KubernetesMinimum), "Upgrade the cluster, or choose another one.")
	}
	return nil
}

// missingRights returns what the user may not do and has to.
func (s *clusterSite) missingRights(ctx context.Context, objects []*unstructured.Unstructured) ([]string, error) {
	var missing []string
	asked := map[authorizationv1.ResourceAttributes]bool{}
	for _, object := range objects {
		kind := object.GroupVersionKind()
		mapping, err := s.read.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return nil, fmt.Errorf("find the resource of %s: %w", kind.Kind, err)
		}
		for _, verb := range []string{"create", "patch"} {
			right := authorizationv1.ResourceAttributes{
				Verb: verb, Group: kind.Group, Resource: mapping.Resource.Resource, Namespace: object.GetNamespace(),
			}
			if asked[right] {
				continue
			}
			asked[right] = true
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
			if err := s.read.Create(ctx, review); err != nil {
				return nil, fmt.Errorf("ask which rights you have: %w", err)
			}
			if !review.Status.Allowed {
				missing = append(missing, verb+" "+mapping.Resource.GroupResource().String())
			}
		}
	}
	return missing, nil
}

// dryRunObjects says what would be applied, and lets the API server check it if that
// was asked for.
func (s *clusterSite) dryRunObjects(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		kind := object.GroupVersionKind()
		mapping, err := s.read.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return fmt.Errorf("find the resource of %s: %w", kind.Kind, err)
		}
		unchecked := ""
		if !s.mode.Skips() {
			err := install.ApplyObjects(ctx, s.write, object)
			switch {
			case apierrors.IsNotFound(err):
				unchecked = ", not checked: its namespace or its kind is still being installed"
			case err != nil:
				return err
			}
		}
		fmt.Fprintf(s.out, "%s/%s applied%s%s\n", strings.TrimSuffix(singular(mapping.Resource.Resource)+"."+kind.Group, "."), object.GetName(), s.mode.Suffix(), unchecked)
	}
	return nil
}

// singular is how kubectl names one object of a resource.
func singular(resource string) string { return strings.TrimSuffix(resource, "s") }

// putOperator installs an operator and waits until it runs.
func (s *clusterSite) putOperator(ctx context.Context, operator install.Operator, objects []*unstructured.Unstructured, wait bool) error {
	err := s.steps.RunStep("Installing the operator "+operator.DeploymentKey().Name, func() error { return install.ApplyObjects(ctx, s.write, objects...) })
	if err != nil {
		return err
	}
	return s.steps.RunStep("Starting the operator "+operator.DeploymentKey().Name, func() error {
		if err := s.newWaiter().AwaitEstablished(ctx, operator.CRD()); err != nil || !wait {
			return err
		}
		return s.newWaiter().AwaitDeployment(ctx, operator.DeploymentKey())
	})
}

// printYAML prints objects as documents of YAML.
func printYAML(to io.Writer, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		text, err := sigsyaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("print %s %q: %w", object.GetKind(), object.GetName(), err)
		}
		if _, err := fmt.Fprintf(to, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
