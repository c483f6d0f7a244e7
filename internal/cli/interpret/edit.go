// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
	"github.com/capstan-io/capstan/internal/cli/output"
)

// remark begins the lines of a file that the user is told something by.
const remark = "# "

// errNothing ends an edit that changes nothing.
var errNothing = errors.New("nothing was changed")

// editCustomization has the user edit a customization of the hub.
func (o *interpretOptions) editCustomization(ctx context.Context, session *hub.Session, args []string) error {
	name, err := o.nameToEdit(session, args)
	if err != nil {
		return err
	}
	c, err := session.ConnectHub()
	if err != nil {
		return err
	}
	before := &configv1alpha1.ResourceInterpreterCustomization{}
	err = c.Get(ctx, client.ObjectKey{Name: name}, before)
	if apierrors.IsNotFound(err) {
		return exit.Next(fmt.Errorf("there is no ResourceInterpreterCustomization %q on the hub", name),
			"\"kubectl get ric\" lists those that exist; \"kubectl create -f\" creates one.")
	}
	if err != nil {
		return err
	}
	others, err := interpreters.Customizations(ctx, c)
	if err != nil && !apierrors.IsForbidden(err) { // the hub refuses conflicts in any case
		return err
	}
	after, err := o.editUntilValid(ctx, session, before, others)
	if errors.Is(err, errNothing) {
		fmt.Fprintln(session.Out, "Edit cancelled, no changes made.")
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.Update(ctx, after); err != nil {
		return o.saveRefused(err, name, after)
	}
	fmt.Fprintf(session.Out, "resourceinterpretercustomization.config.karmada.io/%s edited\n", name)
	return nil
}

// nameToEdit returns the name of the customization to edit.
func (o *interpretOptions) nameToEdit(session *hub.Session, args []string) (string, error) {
	if len(args) == 1 && len(o.files) == 0 {
		return args[0], nil
	}
	if len(args) > 0 || len(o.files) == 0 {
		return "", exit.UsageError("name one customization to edit, by NAME or by a file that has it")
	}
	all, err := o.customizations(session.In)
	if err != nil {
		return "", err
	}
	if len(all) != 1 || all[0].Name == "" {
		return "", exit.UsageError("name one customization to edit: the files have %d", len(all))
	}
	return all[0].Name, nil
}

// editUntilValid has the user write a customization, again and again until it is right.
func (o *interpretOptions) editUntilValid(
	ctx context.Context, session *hub.Session, before *configv1alpha1.ResourceInterpreterCustomization, others []configv1alpha1.ResourceInterpreterCustomization,
) (*configv1alpha1.ResourceInterpreterCustomization, error) {
	shown := before.DeepCopy()
	shown.ManagedFields = nil
	shown.SetGroupVersionKind(configv1alpha1.GroupVersion.WithKind("ResourceInterpreterCustomization"))
	given, err := sigsyaml.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("encode ResourceInterpreterCustomization %q: %w", before.Name, err)
	}
	original := given
	why := []string{"Edit the customization. Lines that begin with # are left out, and an empty file changes nothing."}
	for {
		made, err := runEditor(ctx, session, append(commentLines(why), given...))
		if err != nil {
			return nil, err
		}
		written := withoutHeading(made)
		if len(bytes.TrimSpace(written)) == 0 || bytes.Equal(written, original) {
			return nil, errNothing
		}
		after, wrong := parseEdited(written, before, others)
		if len(wrong) == 0 {
			return after, nil
		}
		if bytes.Equal(written, given) { // the user has given up
			return nil, o.saveUnwritten(written, errors.New(strings.Join(wrong, "\n")))
		}
		given, why = written, append([]string{"It was not written:"}, wrong...)
	}
}

// parseEdited reads what the user has written, and says what is wrong with it.
func parseEdited(
	written []byte, before *configv1alpha1.ResourceInterpreterCustomization, others []configv1alpha1.ResourceInterpreterCustomization,
) (after *configv1alpha1.ResourceInterpreterCustomization, wrong []string) {
	after = &configv1alpha1.ResourceInterpreterCustomization{}
	if err := sigsyaml.UnmarshalStrict(written, after); err != nil {
		return nil, []string{strings.ReplaceAll(err.Error(), "\n", " ")}
	}
	if after.Name != before.Name {
		wrong = append(wrong, fmt.Sprintf("metadata.name: it is %q, and cannot be changed", before.Name))
		after.Name = before.Name // or it would be in conflict with itself
	}
	v := checkCustomization(after, others)
	wrong = append(wrong, v.Problems...)
	for _, s := range v.Scripts {
		switch {
		case s.Line > 0:
			wrong = append(wrong, fmt.Sprintf("%s: line %d: %s", s.Field, s.Line, s.Message))
		case !s.OK:
			wrong = append(wrong, fmt.Sprintf("%s: %s", s.Field, s.Message))
		}
	}
	return after, wrong
}

func commentLines(lines []string) []byte {
	var b bytes.Buffer
	for _, line := range lines {
		fmt.Fprintln(&b, remark+line)
	}
	return b.Bytes()
}

// withoutHeading takes out the remarks at the top. Those in scripts are the user's.
func withoutHeading(content []byte) []byte {
	for bytes.HasPrefix(content, []byte("#")) {
		_, content, _ = bytes.Cut(content, []byte("\n"))
	}
	return content
}

// runEditor has the user edit a file.
func runEditor(ctx context.Context, session *hub.Session, content []byte) (made []byte, err error) {
	file, err := os.CreateTemp("", "capstan-*.yaml")
	if err != nil {
		return nil, fmt.Errorf("create a file to edit: %w", err)
	}
	defer os.Remove(file.Name()) //nolint:errcheck // a file of the system's folder for such
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("write the file to edit: %w", err)
	}
	editor := strings.Fields(cmp.Or(os.Getenv("KUBE_EDITOR"), os.Getenv("EDITOR"), "vi"))
	if len(editor) == 0 {
		return nil, exit.UsageError("$KUBE_EDITOR or $EDITOR is empty: set it to your editor")
	}
	process := exec.CommandContext(ctx, editor[0], append(editor[1:], file.Name())...) //nolint:gosec // the user chooses the editor
	process.Stdin, process.Stdout, process.Stderr = session.In, output.Unescaped(session.Out), output.Unescaped(session.ErrOut)
	if err := process.Run(); err != nil {
		return nil, exit.Next(fmt.Errorf("the editor %q: %w", strings.Join(editor, " "), err), "Set $KUBE_EDITOR or $EDITOR to your editor.")
	}
	return os.ReadFile(file.Name())
}

// saveUnwritten saves what the user has written, so that it is not lost.
func (o *interpretOptions) saveUnwritten(written []byte, why error) error {
	file, err := os.CreateTemp("", "capstan-kept-*.yaml")
	if err != nil {
		return errors.Join(why, err)
	}
	_, err = file.Write(written)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(why, err)
	}
	return exit.Next(fmt.Errorf("nothing was written to the hub: %w", why), "Your changes are saved in %s: \"capstan interpret -f %s --check\" checks it.", file.Name(), file.Name())
}

// saveRefused keeps what the hub does not take.
func (o *interpretOptions) saveRefused(err error, name string, after *configv1alpha1.ResourceInterpreterCustomization) error {
	if apierrors.IsConflict(err) {
		err = fmt.Errorf("ResourceInterpreterCustomization %q was changed meanwhile: edit it again: %w", name, err)
	}
	written, encoding := sigsyaml.Marshal(after)
	if encoding != nil {
		return errors.Join(err, encoding)
	}
	return o.saveUnwritten(written, err)
}
