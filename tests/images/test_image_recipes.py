"""Recipes of images: fairseq takes them, and the learning rate reaches its end with the last epoch."""

import pytest
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from recipes import parse, recipe_texts

EPOCHS = {
    **dict.fromkeys(("resnet", "aa_resnet", "ea_aa_resnet", "pa_aa_resnet"), 15),
    **dict.fromkeys(("vit", "ea_vit"), 30),
    **dict.fromkeys(("cnn_image", "conv_transformer_image", "pa_conv_transformer_image"), 15),
    **dict.fromkeys(("conv_image", "conv-general_image", "conv-learned_image"), 7),
}


def test_each_model_of_images_has_a_recipe():
    assert {name for name in recipe_texts() if name.startswith("cifar10/")} == {f"cifar10/{name}" for name in EPOCHS}


@pytest.mark.parametrize("model", EPOCHS)
def test_fairseq_takes_the_flags_and_the_learning_rate_falls_to_the_last_update(model):
    args = parse(f"cifar10/{model}")
    schedule = convert_namespace_to_omegaconf(args).lr_scheduler
    assert args.max_epoch == EPOCHS[model] and args.optimizer == ("nag" if "resnet" in model else "adamw")
    assert schedule.total_num_update == args.max_update and 0 < args.warmup_updates <= args.max_update / 5
