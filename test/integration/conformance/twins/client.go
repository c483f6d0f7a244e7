// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package twins has rows of manifests that are sent to a cluster, and written there by an
// administrator, too: what comes of both has to be equal.
package twins

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

// bringer is a client by which a user writes objects to a cluster.
type bringer interface {
	// bring creates the objects of a text, or makes those that are there as it says.
	bring(ctx context.Context, text string) error
	// replace makes those that are there as the text says, by PUT.
	replace(ctx context.Context, text string) error
	// recreate deletes the objects, and creates them when they are gone.
	recreate(ctx context.Context, text string) error
	// patchStatus patches the status of an object, and returns the warnings of the answer.
	patchStatus(ctx context.Context, object client.Object, resource, patch string) (string, error)
}

// userClient is the client that users have in a run.
type userClient string

const (
	KubectlClient userClient = "kubectl"
	PlainClient   userClient = "an API client"
)

// bringerTo returns the client for a cluster. Generated are fields that the API server makes
// at POST, and wants back at PUT.
func (u userClient) bringerTo(c *installation.Cluster, generated []string) bringer {
	if u == KubectlClient {
		return kubectl{kubeconfig: c.Path("kubeconfig")}
	}
	return apiClient{to: c, generated: generated}
}

// apiClient creates by POST and changes by PUT.
type apiClient struct {
	to *installation.Cluster
	// generated are fields that the API server makes, and wants back.
	generated []string
}

// keep gives an object the fields of the one that is there.
func keep(object, there *unstructured.Unstructured, paths []string) error {
	for _, path := range paths {
		fields := strings.Split(path, ".")
		if value, found, _ := unstructured.NestedFieldCopy(there.Object, fields...); found {
			if err := unstructured.SetNestedField(object.Object, value, fields...); err != nil {
				return err
			}
		}
	}
	return nil
}

// documentsEnd is between the objects of a text.
const documentsEnd = "\n---\n"

func decodeText(text string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return object, nil
}

// each does something with one object of a text after the other.
func each(text string, do func(*unstructured.Unstructured) error) error {
	for _, document := range strings.Split(text, documentsEnd) {
		object, err := decodeText(document)
		if err != nil {
			return err
		}
		if err := do(object); err != nil {
			return err
		}
	}
	return nil
}

func (a apiClient) bring(ctx context.Context, text string) error {
	return each(text, func(object *unstructured.Unstructured) error {
		err := a.to.Client.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopy())
		switch {
		case apierrors.IsNotFound(err):
			return a.to.Client.Create(ctx, object, client.FieldOwner("user"))
		case err != nil:
			return err
		}
		return a.put(ctx, object)
	})
}

func (a apiClient) replace(ctx context.Context, text string) error {
	return each(text, func(object *unstructured.Unstructured) error { return a.put(ctx, object) })
}

// put does what clients do that change what they have read: the marks of the hub stay.
func (a apiClient) put(ctx context.Context, wanted *unstructured.Unstructured) error {
	for {
		object, there := wanted.DeepCopy(), &unstructured.Unstructured{}
		there.SetGroupVersionKind(object.GroupVersionKind())
		if err := a.to.Client.Get(ctx, client.ObjectKeyFromObject(object), there); err != nil {
			return err
		}
		object.SetResourceVersion(there.GetResourceVersion())
		object.SetFinalizers(there.GetFinalizers())
		object.SetLabels(withMarks(object.GetLabels(), there.GetLabels()))
		object.SetAnnotations(withMarks(object.GetAnnotations(), there.GetAnnotations()))
		if err := keep(object, there, a.generated); err != nil {
			return err
		}
		if err := a.to.Client.Update(ctx, object, client.FieldOwner("user")); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func withMarks(wanted, there map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, wanted)
	for key, value := range there {
		if isMark(key) {
			all[key] = value
		}
	}
	return all
}

func (a apiClient) recreate(ctx context.Context, text string) error {
	return each(text, func(object *unstructured.Unstructured) error {
		if err := a.to.Client.Delete(ctx, object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return err
		}
		for {
			err := a.to.Client.Create(ctx, object.DeepCopy(), client.FieldOwner("user"))
			if !apierrors.IsAlreadyExists(err) { // until then it is being deleted
				return err
			}
			time.Sleep(installation.LookAgain)
		}
	})
}

func (a apiClient) patchStatus(ctx context.Context, object client.Object, _, patch string) (string, error) {
	said := &warnings{}
	config := rest.CopyConfig(a.to.Config)
	config.WarningHandlerWithContext = said
	c, err := client.New(config, client.Options{Scheme: a.to.Client.Scheme()})
	if err != nil {
		return "", err
	}
	err = c.Status().Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)))
	return said.String(), err
}

// warnings are those of answers.
type warnings struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.WriteString(text + "\n")
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// kubectl applies by the program of that name.
type kubectl struct{ kubeconfig string }

func (k kubectl) run(ctx context.Context, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--kubeconfig=" + k.kubeconfig}, args...)...)
	var said bytes.Buffer
	command.Stdin, command.Stderr = strings.NewReader(input), &said
	if err := command.Run(); err != nil {
		return "", errors.New("kubectl " + strings.Join(args, " ") + ": " + said.String() + err.Error())
	}
	return said.String(), nil
}

func (k kubectl) bring(ctx context.Context, text string) error {
	_, err := k.run(ctx, text, "apply", "-f", "-")
	return err
}

func (k kubectl) replace(ctx context.Context, text string) error {
	_, err := k.run(ctx, text, "replace", "-f", "-")
	return err
}

func (k kubectl) recreate(ctx context.Context, text string) error {
	_, err := k.run(ctx, text, "replace", "--force", "-f", "-")
	return err
}

func (k kubectl) patchStatus(ctx context.Context, object client.Object, resource, patch string) (string, error) {
	return k.run(ctx, "", "patch", resource, object.GetName(), "--subresource=status", "--type=merge", "-p", patch)
}
